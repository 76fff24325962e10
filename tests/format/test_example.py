from __future__ import annotations

import contextlib
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format.example import Value, decode_example, encode_example

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOAT32 = st.floats(width=32)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(
    st.binary(max_size=200),
    INT64,
    FLOAT32,
    st.lists(st.binary(max_size=50), min_size=1, max_size=5),
    st.lists(INT64, min_size=1, max_size=20),
    st.lists(FLOAT32, min_size=1, max_size=20),
)
FEATURES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=6)


def no_name_begins_another(features: dict[str, Any]) -> bool:
    names = sorted(map(str.encode, features))
    return not any(longer.startswith(name) for name, longer in pairwise(names))


RECORD: dict[str, Value] = {
    "image": b"\xff\xd8",
    "class": 3,
    "label": b"rose",
    "size": [224, 320],
    "key": b"rose/1.jpg",
}


def tensorflow_example(features: dict[str, Any]) -> tf.train.Example:
    out = {}
    for name, value in features.items():
        items = value if isinstance(value, list) else [value]
        if isinstance(items[0], bytes):
            out[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=items))
        elif isinstance(items[0], float):
            out[name] = tf.train.Feature(float_list=tf.train.FloatList(value=items))
        else:
            out[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=items))
    return tf.train.Example(features=tf.train.Features(feature=out))


def same(one: list[Any], other: list[Any]) -> bool:
    """Equal lists, NaN being equal to itself."""
    nan = [isinstance(value, float) and math.isnan(value) for value in one]
    return len(one) == len(other) and all(
        (isinstance(b, float) and math.isnan(b)) if is_nan else (a == b and type(a) is type(b))
        for a, b, is_nan in zip(one, other, nan, strict=True)
    )


def test_our_record_is_the_same_for_ever() -> None:
    assert encode_example(RECORD).hex() == (
        "0a5d0a0e0a05636c61737312051a030a01030a0f0a05696d61676512060a040a02ffd80a150a036b6579120e0a0c0a0a"
        "726f73652f312e6a70670a110a056c6162656c12080a060a04726f73650a100a0473697a6512081a060a04e001c002"
    )


@given(features=FEATURES.filter(no_name_begins_another))
def test_bytes_are_what_tensorflow_writes_deterministically(features: dict[str, Any]) -> None:
    assert encode_example(features) == tensorflow_example(features).SerializeToString(deterministic=True)


def test_a_name_that_begins_another_comes_before_it() -> None:
    """Ours is the order of bytes; protobuf's Python encoder (upb) puts the longer name first."""
    assert list(decode_example(encode_example({"label_id": 1, "b": 2, "label": 3}))) == ["b", "label", "label_id"]


@given(features=FEATURES)
def test_what_we_or_tensorflow_encoded_is_decoded_in_whatever_order_it_is(features: dict[str, Any]) -> None:
    for data in (encode_example(features), tensorflow_example(features).SerializeToString()):
        decoded = decode_example(data)
        assert decoded.keys() == features.keys()
        for name, value in features.items():
            assert same(value if isinstance(value, list) else [value], decoded[name])


def test_the_codelabs_parser_reads_our_record() -> None:
    kinds = {"image": ((), tf.string), "class": ((), tf.int64), "label": ((), tf.string), "size": ((2,), tf.int64)}
    wanted = {name: tf.io.FixedLenFeature(*kind) for name, kind in kinds.items()}
    parsed = tf.io.parse_single_example(encode_example(RECORD), wanted)
    assert {name: np.asarray(parsed[name]).tolist() for name in wanted} == {name: RECORD[name] for name in wanted}


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, [0, 1 << 64]], ids=["above", "below", "in a list"])
def test_an_integer_outside_int64_is_refused(value: int | list[int]) -> None:
    with pytest.raises(ValueError, match="is not an int64"):
        encode_example({"class": value})


@given(data=st.data())
def test_a_damaged_example_is_an_example_or_a_value_error(data: st.DataObject) -> None:
    encoded = bytearray(encode_example(RECORD | {"x": [1.5, 2.5], "n": [-1, 1 << 40]}))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        decode_example(bytes(encoded))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no features"),
        (b"\x0a", "a varint is cut"),
        (b"\x0a\x05abc", "a field is cut"),
        (b"\x08\x01", "wire type 0"),
        (b"\xff" * 11, "a varint is cut"),
        (b"\x0a\x05\x0a\x03\x0a\x01a", "a feature without name or value"),
        (b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x12\x03\x0a\x01x", "a float is cut"),
        (b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x22\x03\x0a\x01x", "list of kind 4"),
        (b"\x0a\x0c\x0a\x0a\x0a\x01\xff\x12\x05\x0a\x03\x0a\x01x", "invalid start byte"),
    ],
    ids=["empty", "cut tag", "cut field", "another type", "endless varint", "nameless", "cut float", "unknown list",
         "name that is not UTF-8"],
)  # fmt: skip
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_example(data)


def test_a_cut_record_is_never_taken_for_a_whole_one() -> None:
    whole = encode_example(RECORD)
    for size in range(len(whole)):
        with pytest.raises(ValueError):
            decode_example(whole[:size])
