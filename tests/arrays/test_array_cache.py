"""``cache`` of ``array_batches``: one stream in all three modes, and what is not read again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.dataset import reader_arguments
from shardfeed.sampling.blocks import Block
from tests.arrays.test_state import assert_same
from tests.kit.datasets import Written, write_dataset

THREE_BLOCKS = 5_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(tmp_path_factory.mktemp("dataset"), size=None)


def batches(folder: Path, split: str, cache: str | Path | None, count: int | None = None, **options: Any) -> list[Any]:
    stream = shardfeed.array_batches(folder, split, 8, cache=cache, as_dict=True, image_size=12, **options)
    return list(islice(stream, count))


TRAIN: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "start_step": 3, "host": (1, 2), "count": 30}


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(
    ("split", "image_format", "size", "options"),
    [
        ("train", "jpeg", (24, 20), TRAIN),
        ("train", "raw", (24, 20), TRAIN | {"crop": "center"}),
        ("train", "raw", None, TRAIN | {"crop": "random_resized"}),
        ("validation", "jpeg", None, {"host": (1, 2), "label": "onehot"}),
        ("validation", "jpeg", (24, 20), {"host": (0, 8), "label": "onehot"}),
    ],
    ids=lambda one: str(one.get("crop")) if isinstance(one, dict) else str(one),
)
def test_batches_are_the_same_in_every_mode(
    tmp_path: Path, split: str, image_format: str, size: tuple[int, int] | None, options: dict[str, Any]
) -> None:
    folder = write_dataset(tmp_path / "data", image_format=image_format, size=size).path
    plain, kept, copied = (batches(folder, split, cache, **options) for cache in (None, "decoded", tmp_path / "copies"))

    assert_same(kept, plain)
    assert_same(copied, plain)


@pytest.fixture
def blocks_read(monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    read: list[Block] = []
    real = BlockReader.read

    def noted(reader: BlockReader, block: Block) -> LoadedBlock:
        read.append(block)
        return real(reader, block)

    monkeypatch.setattr(BlockReader, "read", noted)
    return read


def test_what_has_been_decoded_is_not_read_again(written: Written, blocks_read: list[Block]) -> None:
    stream = shardfeed.array_batches(written.path, "train", 37, epochs=1, cache="decoded", image_size=12)
    (first,) = stream
    read = len(blocks_read)

    (second,) = stream

    assert read == len(blocks_read) == sum(len(shard.blocks) for shard in written.manifest.splits["train"].shards)
    assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))


def test_what_a_consumer_or_map_changes_is_not_kept(written: Written) -> None:
    def black(image: Any, seed: int) -> Any:
        before = image.copy()
        image[...] = 0
        return before

    stream = shardfeed.array_batches(written.path, "validation", 10, cache="decoded", image_size=12, map=black)
    (first,) = stream
    expected = first[0].copy()
    first[0][...] = 0

    (second,) = stream

    assert expected.any() and np.array_equal(second[0], expected)


def test_copies_are_read_in_place_of_the_shards(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data")
    stream = shardfeed.array_batches(tmp_path / "data", "train", 8, cache=tmp_path / "copies")
    for shard in (tmp_path / "data").glob("*.tfrecord"):
        shard.unlink()

    assert len(list(islice(stream, 20))) == 20
    copies = {path.name for path in (tmp_path / "copies").rglob("*") if path.is_file()}
    assert copies == {f"{shard.crc32c}-{shard.file}" for shard in written.manifest.splits["train"].shards}


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_only_the_shards_of_a_hosts_share_are_copied(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data")
    batches(tmp_path / "data", "validation", tmp_path / "copies", host=(1, 2))

    found = [path.name for path in (tmp_path / "copies").rglob("*") if path.is_file()]
    assert 0 < len(found) < len(written.manifest.splits["validation"].shards)


def test_a_damaged_copy_names_the_remedy(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data")
    stream = shardfeed.array_batches(tmp_path / "data", "train", 8, cache=tmp_path / "copies")
    copy = next(path for path in (tmp_path / "copies").rglob("*") if path.is_file())
    data = bytearray(copy.read_bytes())
    data[100] ^= 1
    copy.write_bytes(data)

    with pytest.raises(shardfeed.DatasetError) as found:
        list(islice(stream, 5))

    assert str(found.value).startswith(f"{copy} is damaged: record 0 at byte 0")
    assert str(found.value).endswith(
        f"It is a copy of {written.path}, made by cache=: delete it, and the next reader copies it again."
    )
    copy.unlink()  # explain_errors looks into every folder of copies that this process has read


@pytest.mark.parametrize(
    ("options", "bytes_of_one"),
    [({}, 24 * 20 * 3), ({"image_size": 5}, 5 * 5 * 3), ({"image_size": 5, "crop": "random_resized"}, 24 * 20 * 3)],
    ids=["as stored", "resized", "random crops"],
)
def test_decoded_images_must_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], bytes_of_one: int
) -> None:
    write_dataset(tmp_path, size=(24, 20))
    monkeypatch.setattr(reader_arguments, "memory", lambda: 37 * bytes_of_one)
    assert shardfeed.array_batches(tmp_path, "train", 8, cache="decoded", **options)
    monkeypatch.setattr(reader_arguments, "memory", lambda: 37 * bytes_of_one - 1)

    with pytest.raises(
        shardfeed.UsageError,
        match=rf"^cache='decoded': 37 images of {bytes_of_one:,} bytes are {37 * bytes_of_one:,} bytes",
    ):
        shardfeed.array_batches(tmp_path, "train", 8, cache="decoded", **options)


@pytest.mark.parametrize("cache", ["", 3, "gs://bucket/copies", "Decoded"], ids=repr)
def test_a_wrong_cache_is_refused(written: Written, cache: Any) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^cache="):
        shardfeed.array_batches(written.path, "train", 8, cache=cache, image_size=12)
