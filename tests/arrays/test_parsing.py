"""Image and class of records: found for all of a window at once, and one by one where another
encoder wrote them.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.arrays import parsing
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.framing import split
from shardfeed.arrays.parsing import image_and_class, images_and_classes, keys_and_sizes
from shardfeed.errors import DatasetError
from shardfeed.format.example import Value, decode_example, encode_example, encode_feature, join_features
from shardfeed.format.manifest import Shard
from shardfeed.format.tfrecord import OVERHEAD, frame
from shardfeed.sampling.blocks import Block, blocks_in
from tests.kit.builds import built
from tests.kit.images import make_photos


def block_of(*data: bytes) -> LoadedBlock:
    framed = b"".join(map(frame, data))
    shard = Shard("train-00000-of-00001.tfrecord", len(data), len(framed), "00000000", ((len(data), len(framed)),))
    return LoadedBlock(Block(shard, 0, 0, len(data), len(framed)), framed, *split(framed))


def found_in(data: bytes) -> tuple[bytes, int]:
    (image,), (number,) = images_and_classes([block_of(data)], BlockReader("/data"))
    return bytes(image), int(number)


def test_records_of_several_blocks_and_encoders_come_in_order() -> None:
    chance = random.Random(3)
    numbers = [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 5, 2**63 - 1, 77, 300, 1]
    sizes = [0, 5, 127, 128, 20_000]
    features = [
        (encode_feature("class", number), encode_feature("image", chance.randbytes(chance.choice(sizes))))
        for number in numbers * 3
    ]
    # Every fifth as another encoder may write it: the image first, which only the careful parser reads.
    records = [join_features(pair if number % 5 else pair[::-1]) for number, pair in enumerate(features)]
    nothing, middle = block_of(*records[7:8]).part(1, 0), block_of(*records[5:30]).part(2, 20)
    blocks = [block_of(*records[:7]), nothing, middle, block_of(*records[27:])]

    images, classes = images_and_classes(blocks, BlockReader("/data"))

    assert list(zip(map(bytes, images), classes.tolist(), strict=True)) == [image_and_class(data) for data in records]


def test_all_records_of_a_build_are_found_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the last two have indices of two bytes
    classes = [f"class {number:03d}" for number in range(130)]
    built(make_photos(tmp_path / "photos", classes=classes, each=1), tmp_path / "out", "--resize=longest")
    reader = BlockReader(str(tmp_path / "out"))
    blocks = [reader.read(block) for block in blocks_in(shardfeed.info(tmp_path / "out").splits["train"].shards)]
    careful = [image_and_class(bytes(record.data)) for records in blocks for record in records]

    def one_by_one(data: bytes) -> tuple[bytes, int]:
        raise AssertionError("taken apart one by one")

    keys = [(decode_example(bytes(record.data))["key"][0]) for records in blocks for record in records]
    sizes = [(decode_example(bytes(record.data))["size"]) for records in blocks for record in records]
    monkeypatch.setattr(parsing, "image_and_class", one_by_one)
    monkeypatch.setattr(parsing, "decode_example", one_by_one)
    images, numbers = images_and_classes(blocks, BlockReader("/data"))
    found_keys, found_sizes = keys_and_sizes(blocks, BlockReader("/data"))

    assert list(zip(map(bytes, images), numbers.tolist(), strict=True)) == careful
    assert (found_keys, found_sizes.tolist()) == (keys, sizes)
    assert sorted(numbers.tolist()) == list(range(130))


@pytest.mark.parametrize(
    "columns",
    [
        {"image": b"\xff" * 300, "class": 0},
        {"image": b"", "class": 2**40},
        {"image": b"i" * 20_000, "class": 300, "caption": b"\n\x05image\x12", "a": [1.5, 2.5], "zoo": [b"x", b"yy"]},
        {"image": b"i" * 127, "class": -1},
    ],
    ids=["plain", "empty image, large class", "columns around them", "negative class"],
)
def test_the_quick_parser_agrees_with_the_careful_one(columns: dict[str, Value]) -> None:
    data = encode_example(columns)
    careful = decode_example(data)

    assert found_in(data) == (careful["image"][0], careful["class"][0])


ONE = (encode_feature("class", 5), encode_feature("image", b"pixels"), encode_feature("key", b"k"))
ONE_SIZE = 33  # bytes before its image


@pytest.mark.parametrize(
    "again", [encode_feature("class", 9), encode_feature("image", b"others")], ids=["class", "image"]
)
def test_a_column_that_comes_again_wins_as_in_every_parser(again: bytes) -> None:
    data = join_features((*ONE, again))
    careful = decode_example(data)

    assert found_in(data) == (careful["image"][0], careful["class"][0])
    assert found_in(data) != (b"pixels", 5)


def test_a_column_that_comes_again_without_a_value_is_refused() -> None:
    key = b"\n\x05class"
    with pytest.raises(DatasetError, match="a feature without name or value"):
        found_in(join_features((*ONE, b"\n" + bytes([len(key)]) + key)))


BOUNDS_NEITHER = (28, 30)  # the lengths of the image's feature and of the list in it


@pytest.mark.parametrize("place", range(ONE_SIZE))
def test_a_wrong_byte_anywhere_before_the_image_is_refused_or_harmless(place: int) -> None:
    whole = join_features(ONE)
    for change in (*(1 << bit for bit in range(8)), 3, 0x7F, 0x81, 0xFF):
        data = bytearray(whole)
        data[place] ^= change
        try:
            careful = decode_example(bytes(data))
            (image,), (number,) = careful["image"], careful["class"]
            assert isinstance(image, bytes) and isinstance(number, int)
        except (ValueError, KeyError, IndexError, AssertionError):
            if place in BOUNDS_NEITHER:
                with contextlib.suppress(DatasetError):
                    assert found_in(bytes(data)) == (b"pixels", 5)
            else:
                with pytest.raises(DatasetError):
                    found_in(bytes(data))
        else:
            assert found_in(bytes(data)) == (image, number)


def test_an_image_that_would_reach_beyond_its_record_is_refused() -> None:
    data = bytearray(join_features(ONE[:2]))
    for length in (19, 28, 30, 32):
        data[length] += 3

    with pytest.raises(DatasetError, match="a field is cut"):
        found_in(bytes(data))


def test_a_record_knows_where_it_lies_in_its_block() -> None:
    data = [join_features(ONE), b"", b"xyz", b"abc"]
    whole = block_of(*data)

    found = [(bytes(record.data), record.number, record.offset) for record in whole.part(1, 2)]

    assert found == [(b"", 1, len(frame(data[0]))), (b"xyz", 2, len(frame(data[0])) + OVERHEAD)]


@pytest.mark.parametrize("size", [0, 1, 100, 101, 127, 128, 16_350, 16_383, 16_384, 2_097_151, 2_097_152])
def test_images_of_every_length(size: int) -> None:
    columns: dict[str, Value] = {"class": 3, "image": b"i" * size, "key": b"k", "label": b"rose", "size": [3, 4]}
    assert found_in(encode_example(columns)) == (b"i" * size, 3)


def test_every_cut_of_a_record_is_refused() -> None:
    data = encode_example({"image": b"i" * 300, "class": 5, "key": b"k"})
    for size in range(len(data) - 10):
        with pytest.raises(DatasetError, match=r"found (not a tf\.train\.Example|column)"):
            found_in(data[:size])


WHOLE: dict[str, Value] = {"image": b"pixels", "class": 5, "key": b"a/1.jpg", "label": b"rose", "size": [300, 4]}


def test_keys_and_sizes_of_all_records_are_found_at_once() -> None:
    """In order, over blocks and parts of them; every fifth record as another encoder writes it."""
    chance = random.Random(3)
    columns = [
        WHOLE | {"image": chance.randbytes(number), "key": b"k" * chance.choice([0, 1, 127, 128, 3000]), "size": size}
        for number in range(30)
        for size in ([1, 65_535], [chance.randrange(1, 70_000), 127])
    ]
    features = [[encode_feature(name, one[name]) for name in sorted(one)] for one in columns]
    records = [join_features(one if number % 5 else one[::-1]) for number, one in enumerate(features)]
    blocks = [block_of(*records[:7]), block_of(*records[5:30]).part(2, 23), block_of(*records[30:])]

    keys, sizes = keys_and_sizes(blocks, BlockReader("/data"))

    assert keys == [one["key"] for one in columns]
    assert sizes.tolist() == [one["size"] for one in columns]


@pytest.mark.parametrize(
    "columns",
    [
        WHOLE | {"label": b""},
        WHOLE | {"caption": b"c", "zoo": [1.5]},
        WHOLE | {"labels": b"rose"},
        {name: value for name, value in WHOLE.items() if name != "label"},
        WHOLE | {"size": [1 << 40, 2]},
        WHOLE | {"size": [-1, 2]},
    ],
    ids=["empty label", "columns around them", "a longer name", "no label", "a large size", "a negative size"],
)
def test_keys_and_sizes_are_those_of_the_careful_parser(columns: dict[str, Value]) -> None:
    keys, sizes = keys_and_sizes([block_of(encode_example(columns))], BlockReader("/data"))

    assert (keys, sizes.tolist()) == ([b"a/1.jpg"], [columns["size"]])


def test_a_key_that_comes_again_wins() -> None:
    data = join_features([*(encode_feature(name, WHOLE[name]) for name in sorted(WHOLE)), encode_feature("key", b"z")])

    assert keys_and_sizes([block_of(data)], BlockReader("/data"))[0] == [b"z"]


NO_CLASS = {name: value for name, value in WHOLE.items() if name != "class"}


@pytest.mark.parametrize(
    ("find", "columns", "message"),
    [
        (images_and_classes, NO_CLASS, "column class: expected 1 of int, found []"),
        (images_and_classes, WHOLE | {"image": [b"x", b"y"]}, "column image: expected 1 of bytes, found [b'x', b'y']"),
        (images_and_classes, WHOLE | {"class": [1, 2]}, "column class: expected 1 of int, found [1, 2]"),
        (images_and_classes, WHOLE | {"class": b"rose"}, "column class: expected 1 of int, found [b'rose']"),
        (keys_and_sizes, WHOLE | {"key": [b"a", b"b"]}, "column key: expected 1 of bytes, found [b'a', b'b']"),
        (keys_and_sizes, WHOLE | {"size": [1, 2, 3]}, "column size: expected 2 of int, found [1, 2, 3]"),
        (keys_and_sizes, WHOLE | {"size": [1.5, 2.5]}, "column size: expected 2 of int, found [1.5, 2.5]"),
    ],
    ids=["no class", "two images", "two classes", "class of bytes", "two keys", "three sides", "sides of float"],
)
def test_columns_of_another_shape_or_type_are_refused(find: Any, columns: dict[str, Value], message: str) -> None:
    with pytest.raises(DatasetError) as found:
        find([block_of(encode_example(columns))], BlockReader("/data"))

    assert f": record: expected a tf.train.Example, found {message}. " in str(found.value)
