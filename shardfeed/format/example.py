"""Canonical ``tf.train.Example`` bytes without TensorFlow, and their parser.

Protobuf maps serialise in unspecified order, so the same example could have several encodings. Here
features are sorted by name and int64 lists are packed. That is byte for byte what TensorFlow writes
with ``deterministic=True``, except with protobuf's upb encoder, which puts a name after the longer
names that begin with it.

Wire format: Example{1: Features{1: map<string, Feature>}},
Feature{1: BytesList | 2: FloatList | 3: Int64List}.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Value = bytes | int | float | list[bytes] | list[int] | list[float]


def encode_example(features: Mapping[str, Value]) -> bytes:
    """Serialised ``tf.train.Example``.

    A value: bytes, int (int64), float (float32) or a non-empty list of one.
    """
    return join_features([encode_feature(name, features[name]) for name in sorted(features)])


def encode_feature(name: str, value: Value) -> bytes:
    """One feature as an Example contains it. A writer keeps it for columns whose value recurs."""
    if isinstance(value, bytes):
        return feature_head(name, len(value)) + value
    return _field(1, _name_field(name) + _field(2, _feature(value)))


def encode_list(name: str, values: Sequence[Any], kind: type) -> bytes:
    """A feature of a list, which may be empty, of ``kind``: bytes, int or float."""
    if values:
        return encode_feature(name, list(values))
    return _field(1, _name_field(name) + _field(2, _field({bytes: 1, float: 2, int: 3}[kind], b"")))


def feature_head(name: str, size: int) -> bytes:
    """What precedes the value in a feature of one bytes value of ``size`` bytes."""
    item = b"\n" + _varint(size)
    size += len(item)
    feature = b"\n" + _varint(size)
    size += len(feature)
    pair = _name_field(name) + b"\x12" + _varint(size)
    return b"".join((b"\n", _varint(len(pair) + size), pair, feature, item))


def join_features(features: Sequence[bytes]) -> bytes:
    """Serialised ``tf.train.Example`` of encoded features, in the byte order of their names.

    A feature may come in several pieces, so that a large value is copied once.
    """
    return b"".join((example_head(sum(map(len, features))), *features))


def example_head(size: int) -> bytes:
    """What precedes ``size`` bytes of features in an Example."""
    return b"\n" + _varint(size)


@functools.lru_cache(maxsize=1024)
def _name_field(name: str) -> bytes:
    return _field(1, name.encode())


def decode_example(data: bytes) -> dict[str, list[Any]]:
    """The features of a serialised ``tf.train.Example``, by name: lists of bytes, int or float.

    Raises:
        ValueError: the bytes are not an Example.
    """
    out: dict[str, list[Any]] = {}
    for number, features in _fields(data):
        if number != 1:
            continue
        for _, entry in _fields(features):
            pair = dict(_fields(entry))
            if 1 not in pair or 2 not in pair:
                raise ValueError("not a tf.train.Example: a feature without name or value")
            out[pair[1].decode()] = _values(pair[2])
    if not out:
        raise ValueError("not a tf.train.Example: no features")
    return out


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(body)) + body


def _feature(value: Value) -> bytes:
    items = value if isinstance(value, list) else [value]
    first = items[0]
    if isinstance(first, bytes):
        return _field(1, b"".join(_field(1, item) for item in items))  # type: ignore[arg-type]
    if isinstance(first, float):
        return _field(2, _field(1, struct.pack(f"<{len(items)}f", *items)))
    for item in items:
        if not -(1 << 63) <= item < 1 << 63:  # type: ignore[operator]
            raise ValueError(f"{item!r} is not an int64")
    return _field(3, _field(1, b"".join(_varint(item) for item in items)))  # type: ignore[arg-type]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a tf.train.Example: a varint is cut")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
        shift += 7


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    out, at = [], 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 != 2:
            raise ValueError(f"not a tf.train.Example: wire type {tag & 7} where 2 is expected")
        size, at = _read_varint(data, at)
        if at + size > len(data):
            raise ValueError("not a tf.train.Example: a field is cut")
        out.append((tag >> 3, data[at : at + size]))
        at += size
    return out


def _values(feature: bytes) -> list[Any]:
    for kind, body in _fields(feature):
        if kind == 1:
            return [item for _, item in _fields(body)]
        packed = b"".join(item for _, item in _fields(body))
        if kind not in (2, 3):
            raise ValueError(f"not a tf.train.Example: list of kind {kind}")
        if kind == 2:
            if len(packed) % 4:
                raise ValueError("not a tf.train.Example: a float is cut")
            return list(struct.unpack(f"<{len(packed) // 4}f", packed))
        ints, at = [], 0
        while at < len(packed):
            value, at = _read_varint(packed, at)
            ints.append(value - (1 << 64) if value >> 63 else value)
        return ints
    return []
