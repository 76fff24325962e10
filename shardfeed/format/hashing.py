"""The hashes that fix membership and order of every record.

hash128(domain, seed, key) = BLAKE2b(seed as int64 little-endian + key, digest_size=16, person=domain), read big-endian;
hash64 = its top 64 bits. BLAKE2b is in the standard library, keyed by domain at no cost, and the same on every machine.

Domains are independent on purpose: with one shared hash a 10 % split used 7 of 64 parts. Changing anything here moves
every record of every dataset to another place: it needs a new ``ENCODER_REVISION`` and a new schema version.
"""

from __future__ import annotations

from hashlib import blake2b

MASK128 = (1 << 128) - 1

_DOMAINS = {name: name.encode().ljust(16, b"\0") for name in ("key", "list", "part", "split", "stats")}
_SEED_ZERO = bytes(8)


def hash128(domain: str, seed: int, key: bytes) -> int:
    """128-bit hash of ``key`` in ``domain`` (at most 16 ASCII bytes); ``seed`` is a signed 64-bit integer."""
    person = _DOMAINS.get(domain) or domain.encode("ascii")
    salt = seed.to_bytes(8, "little", signed=True) if seed else _SEED_ZERO
    return int.from_bytes(blake2b(salt + key, digest_size=16, person=person).digest(), "big")


def hash64(domain: str, seed: int, key: bytes) -> int:
    """Top 64 bits of ``hash128``."""
    return hash128(domain, seed, key) >> 64


def key_hash(key: bytes) -> int:
    """The hash whose sum mod 2**128 proves that no key was lost or doubled (xor would cancel duplicates)."""
    return hash128("key", 0, key)
