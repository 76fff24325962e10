"""The hashes that decide membership and order of every record.

hash128(domain, seed, key) = BLAKE2b(seed as int64 little-endian + key, digest_size=16,
person=domain), read big-endian. hash64 = its top 64 bits. BLAKE2b is in the standard library,
takes the domain at no cost and is the same on every machine.

The hashes of two domains are independent: with one shared hash a 10 % split used 7 of 64 parts.
Any change here moves every record of every dataset to another place; it needs a new
``ENCODER_REVISION`` and a new schema version.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

MASK128 = (1 << 128) - 1


def hash128(domain: str, seed: int, key: bytes) -> int:
    """128-bit hash of ``key`` in ``domain`` (at most 16 ASCII bytes).

    ``seed``: a signed 64-bit integer.
    """
    seeded = seed.to_bytes(8, "little", signed=True) + key
    return int.from_bytes(blake2b(seeded, digest_size=16, person=domain.encode("ascii")).digest(), "big")


def sum128(domain: str, seed: int, keys: Iterable[bytes]) -> int:
    """Sum mod 2**128 of ``hash128`` of many keys, at two thirds of the time."""
    person, seeded = domain.encode("ascii"), seed.to_bytes(8, "little", signed=True)
    hashes = (blake2b(seeded + key, digest_size=16, person=person).digest() for key in keys)
    return sum(int.from_bytes(value, "big") for value in hashes) & MASK128


def hash64(domain: str, seed: int, key: bytes) -> int:
    """Top 64 bits of ``hash128``."""
    return hash128(domain, seed, key) >> 64


def key_hash(key: bytes) -> int:
    """Its sum mod 2**128 proves that no key was lost or doubled (xor would cancel doubles)."""
    return hash128("key", 0, key)
