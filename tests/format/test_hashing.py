"""Golden values: they fix where every record of every dataset is.

If one fails, the code is wrong.
"""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format.hashing import hash64, hash128, key_hash

GOLDEN = [
    ("key", 0, b"", 0xE7FD2186D17350E5E54C89196125F1E0),
    ("key", 0, b"daisy/1.jpg", 0x246177D87C88CB80423DE691FFA41220),
    ("part", 0, b"daisy/1.jpg", 0xD8ACD068E07CBBBD56CBEA32CE90E943),
    ("part", 1, b"daisy/1.jpg", 0x3FEEB7410F294D1C6B74A8F593B6B6D3),
    ("part", -1, b"daisy/1.jpg", 0x0D50CD71BDC3C54588D2227F8F5EA38A),
    ("part", 9223372036854775807, b"daisy/1.jpg", 0x26F0D3A9F6BA97B83CD98BD755426C65),
    ("part", -9223372036854775808, b"daisy/1.jpg", 0x968510BFB6933E8D2A0B08C40834BA26),
    ("split", 0, b"daisy/1.jpg", 0x40885B296CF3C23B03C9E7CF5FA14BBB),
    ("list", 0, b"daisy/1.jpg", 0x377D72CD27769A636542A005D00F814E),
    ("key", 0, b"gr\xc3\xb6\xc3\x9fe/\xc3\xa9.png", 0x92D8117217B0F3F859066709FDA9C9D7),
    ("key", 0, b"\xff\x00\xfe", 0x1EC72CAB3A8A0825D92434FC91D93F9A),
    ("other", 7, b"x" * 1000, 0xFFE515357EB7751D9D9565FC85F1A5E8),
]


@pytest.mark.parametrize(("domain", "seed", "key", "value"), GOLDEN)
def test_a_hash_is_the_same_for_ever(domain: str, seed: int, key: bytes, value: int) -> None:
    assert hash128(domain, seed, key) == value
    assert hash64(domain, seed, key) == value >> 64


def test_the_hash_of_a_key_is_the_key_domain_without_seed() -> None:
    assert key_hash(b"daisy/1.jpg") == hash128("key", 0, b"daisy/1.jpg")


SEEDS = st.integers(-(1 << 63), (1 << 63) - 1)
DOMAINS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=16)


@given(domain=DOMAINS, seed=SEEDS, key=st.binary())
def test_a_hash_is_blake2b_with_the_seed_before_the_key_and_the_domain_as_person(
    domain: str, seed: int, key: bytes
) -> None:
    digest = blake2b(seed.to_bytes(8, "little", signed=True) + key, digest_size=16, person=domain.encode()).digest()
    assert hash128(domain, seed, key) == int.from_bytes(digest, "big")
