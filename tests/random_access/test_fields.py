"""The quick way through a record finds what the careful one finds, and declines what it may not."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.decoding import RecordProblem
from shardfeed.format.example import Value, encode_example, encode_feature, join_features
from shardfeed.format.tfrecord import frame
from shardfeed.random_access import fields
from shardfeed.random_access.fields import FieldParser, Fields

CLASSES = ("daisy", "größe", *map(str, range(300)))
ROW: dict[str, Value] = {
    "image": b"\xff\xd8image", "class": 1, "label": "größe".encode(), "size": [8, 12], "key": b"a/1.jpg",
}  # fmt: skip
FIELDS: Fields = (b"\xff\xd8image", 1, "a/1.jpg", (8, 12))

REMEMBERED = [fields._frame_head, fields._image_head, fields._key_head, fields._size]

keys = st.one_of(st.text(max_size=20), st.integers(100, 20_000).map(lambda size: "k" * size))
images = st.one_of(st.binary(max_size=300), st.integers(100, 40_000).map(bytes), st.just(b"\n\x05label" * 3))
sides = st.integers(1, 65_535)


@given(image=images, label=st.integers(0, len(CLASSES) - 1), key=keys, height=sides, width=sides)
def test_a_record_of_our_encoder_is_known(image: bytes, label: int, key: str, height: int, width: int) -> None:
    row: dict[str, Value] = {
        "image": image, "class": label, "label": CLASSES[label].encode(), "size": [height, width], "key": key.encode(),
    }  # fmt: skip
    parse, data = FieldParser(CLASSES), encode_example(row)
    for _ in range(2):  # then all but the image has been seen before
        assert parse.known(frame(data)) == parse.parsed(data) == (image, label, key, (height, width))


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_a_record_is_known_wherever_one_of_its_lengths_gets_another_digit(digits: int) -> None:
    parse, turn = FieldParser(CLASSES), 1 << 7 * digits

    for size in range(turn - 90, turn + 1):
        assert parse.known(frame(encode_example({**ROW, "image": bytes(size)}))) == (bytes(size), *FIELDS[1:])


def test_what_is_known_of_a_changed_record_is_what_the_careful_way_finds() -> None:
    data, known = encode_example(ROW), 0
    for at in range(len(data)):
        for bit in range(8):
            changed = data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
            for whole in (changed, changed[:-1], changed + b"\0"):
                with contextlib.suppress(UnicodeDecodeError):  # of the key
                    if (found := FieldParser(CLASSES).known(frame(whole))) is not None:
                        known += 1
                        assert found == FieldParser(CLASSES).parsed(whole)
    assert known > 100  # of the image and of the key


def features(**columns: Any) -> list[bytes]:
    return [encode_feature(name, columns[name]) for name in columns]


OTHERS = {
    "another order": join_features(features(**dict(reversed(list(ROW.items()))))),
    "one more column": encode_example({**ROW, "brand": b"x"}),
    "one more column at the end": encode_example({**ROW, "zoom": 1.5}),
    "a label of another name": encode_example({**ROW, "label": b"rose"}),
    "a class of two bytes": join_features(
        [
            encode_feature("class", 300).replace(b"\xac\x02", b"\x81\x00"),
            *features(**{name: ROW[name] for name in sorted(ROW) if name != "class"}),
        ]
    ),
    "no label": encode_example({name: value for name, value in ROW.items() if name != "label"}),
}
TWICE = {
    "class": join_features([*features(**{**dict(sorted(ROW.items())), "class": 0}), *features(**{"class": 1})]),
    "image": join_features([*features(**{**dict(sorted(ROW.items())), "image": b"x"}), *features(image=ROW["image"])]),
    "key": join_features([*features(**{**dict(sorted(ROW.items())), "key": b"x"}), *features(key=ROW["key"])]),
}


@pytest.mark.parametrize(
    "data", [*OTHERS.values(), *TWICE.values()], ids=[*OTHERS, *(f"{name} twice" for name in TWICE)]
)
def test_a_record_of_another_encoder_is_parsed_in_full(data: bytes) -> None:
    parse = FieldParser(CLASSES)

    assert parse.known(frame(data)) is None
    assert parse(frame(data)) == FIELDS


def test_a_record_of_another_encoder_costs_no_memory() -> None:
    data = [frame(encode_example({**ROW, "class": 0, "label": b"daisy", "zoom": float(zoom)})) for zoom in range(9)]
    FieldParser(CLASSES)(data[0])
    before = [remembered.cache_info().currsize for remembered in REMEMBERED]

    assert all(map(FieldParser(CLASSES), data))
    assert [remembered.cache_info().currsize for remembered in REMEMBERED] == before


def test_a_record_may_leave_its_size_out() -> None:
    row = {name: value for name, value in ROW.items() if name != "size"}

    assert FieldParser(CLASSES)(frame(encode_example(row))) == (*FIELDS[:3], None)


NO_EXAMPLE = "record: expected a tf.train.Example of a build, found"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**ROW, "class": 302}, "class: expected 0 to 301, found 302"),
        ({**ROW, "class": -1}, "class: expected 0 to 301, found -1"),
        ({**ROW, "key": b"\xff"}, f"{NO_EXAMPLE} 'utf-8' codec"),
        ({**ROW, "image": 5}, f"{NO_EXAMPLE} column image: expected 1 of bytes"),
        ({**ROW, "size": [8]}, f"{NO_EXAMPLE} column size: expected 2 of int"),
        ({"key": b"x"}, f"{NO_EXAMPLE} column image: expected 1 of bytes, found []"),
    ],
    ids=["class too large", "class below 0", "key not UTF-8", "image an int", "size of 1", "columns missing"],
)
def test_what_is_wrong_is_said(row: dict[str, Value], said: str) -> None:
    with pytest.raises(RecordProblem) as found:
        FieldParser(CLASSES)(frame(encode_example(row)))
    assert str(found.value).startswith(said)


@pytest.mark.parametrize("data", [encode_example(ROW), OTHERS["one more column"]], ids=["ours", "another"])
def test_no_record_is_read_from_a_changed_frame(data: bytes) -> None:
    framed = frame(data)

    for at in range(len(framed)):
        assert FieldParser(CLASSES)(framed[:at] + bytes((framed[at] ^ 1,)) + framed[at + 1 :]) is None
        assert FieldParser(CLASSES)(framed[:at]) is None
    assert FieldParser(CLASSES)(framed + b"x") is None
