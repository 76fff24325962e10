"""Shards from parts: bytes, crc, index and blocks; a file that is there is kept or a conflict."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.format import tfrecord
from shardfeed.format.checksums import crc32c
from shardfeed.format.manifest import BLOCK_BYTES
from shardfeed.format.record_table import table_value
from shardfeed.transforms.elements import Duplicates, PartFile, PartResult, Plan, ShardPlan, ShardResult
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.part_files import Sidecar, commit_part
from shardfeed.transforms.publish.composing import blocks_of, compose_shard
from shardfeed.transforms.publish.concatenation import crc32c_of_concatenation
from shardfeed.transforms.run.concurrent_requests import REQUESTS
from shardfeed.transforms.run.outcome import AlreadyBuiltError
from shardfeed.transforms.stores.base import WritableStore
from tests.kit.datasets import write_dataset
from tests.kit.rows import rows_of

NAME = "train-00000-of-00001.tfrecord"
TABLE = "train-00000-of-00001.parquet"


def _part(store: WritableStore, number: int, records: list[bytes]) -> PartFile:
    framed = [tfrecord.frame(record) for record in records]
    data = b"".join(framed)
    result = PartResult("train", number, len(data), len(framed), crc32c(data), 0, {}, {}, {}, None)
    commit_part(store, "f", Sidecar(result, rows_of(map(len, framed), name=f"{number}-", classes=(1, 0)), (), {}), data)
    return PartFile(number, len(data), len(framed), crc32c(data))


def _compose(store: WritableStore, shard: ShardPlan, fingerprint: str = "f") -> ShardResult:
    return compose_shard(
        store,
        Plan(fingerprint, ("cät", "dog"), {}, 5, {}),
        BuildOptions(image=ImageOptions(format="png")),
        Duplicates(),
        shard,
    )


@pytest.fixture
def plan(store: WritableStore) -> ShardPlan:
    """A shard of three parts and five records, not in the order in which they were written."""
    parts = [_part(store, 7, [b"five"]), _part(store, 2, [b"1", b"two"]), _part(store, 4, [b"three!", b""])]
    return ShardPlan("train", 0, 1, tuple(sorted(parts, key=lambda part: part.part)))


RECORDS = [b"1", b"two", b"three!", b"", b"five"]
DATA = b"".join(map(tfrecord.frame, RECORDS))
SIZES = [len(record) + tfrecord.OVERHEAD for record in RECORDS]


def test_a_shard_is_its_parts_in_order_and_its_index_has_the_offset_and_size_of_each_record(
    store: WritableStore, plan: ShardPlan
) -> None:
    result = _compose(store, plan)

    offsets = [offset for offset, _ in tfrecord.scan(io.BytesIO(DATA))]
    index = "".join(f"{offset} {size}\n" for offset, size in zip(offsets, SIZES, strict=True)).encode()
    assert (store.read(NAME), store.read(NAME + ".idx")) == (DATA, index)
    offsets_crc, classes_crc = (
        crc32c(store.read(f"_parts/f/index/{NAME}.{column}")) for column in ("offsets", "classes")
    )
    _, digest = table_value(io.BytesIO(store.read(TABLE)))
    assert result == ShardResult(
        split="train",
        file=NAME,
        records=5,
        bytes=len(DATA),
        crc32c=crc32c(DATA),
        blocks=((5, len(DATA)),),
        index_bytes=len(index),
        index_crc32c=crc32c(index),
        offsets_crc32c=offsets_crc,
        classes_crc32c=classes_crc,
        table_digest=f"{digest:032x}",
    )


def test_a_shard_that_is_there_is_kept_and_not_made_again(store: WritableStore, plan: ShardPlan) -> None:
    first = _compose(store, plan)
    before = store.stat(NAME), store.stat(NAME + ".idx")

    assert _compose(store, plan) == first
    assert (store.stat(NAME), store.stat(NAME + ".idx")) == before


@pytest.mark.parametrize("kept", ["none", "the claim"])
def test_a_build_whose_parts_a_joined_build_has_published_and_swept_is_at_its_end(
    store: WritableStore, plan: ShardPlan, kept: str, tmp_path: Path
) -> None:
    manifest = write_dataset(tmp_path / "published").manifest
    _compose(store, plan)
    for name, _ in list(store.list("_parts/")):
        store.delete(name)
    store.create("manifest.json", manifest.to_json())
    with pytest.raises(IncompleteError, match=r"^part 2 of train is gone\. Rerun the same command\.$"):
        _compose(store, plan, "f" * 32)
    store.delete("manifest.json")
    store.create("manifest.json", replace(manifest, fingerprint="f" * 32).to_json())
    if kept == "the claim":  # the sweep is under way
        store.create("_parts/CLAIM", b"{}")

    with pytest.raises(AlreadyBuiltError):
        _compose(store, plan, "f" * 32)


@pytest.mark.parametrize("content", [b"foreign", DATA[:-1], DATA[:-1] + b"x"], ids=["foreign", "cut", "another byte"])
def test_another_file_of_the_shards_name_is_a_conflict_and_stays(
    store: WritableStore, plan: ShardPlan, content: bytes
) -> None:
    store.create(NAME, content)

    with pytest.raises(ConflictError) as found:
        _compose(store, plan)
    assert str(found.value) == (
        f"{store.url}/{NAME} exists with {len(content)} bytes, crc32c {crc32c(content):08x}; this build makes {len(DATA)} bytes, "
        f"{crc32c(DATA):08x}. Something else wrote it. Remove the unfinished build with --discard_incomplete, or give another "
        "--output."
    )
    assert store.read(NAME) == content


def test_another_index_is_a_conflict_and_stays(store: WritableStore, plan: ShardPlan) -> None:
    store.create(NAME + ".idx", b"0 1\n")

    with pytest.raises(ConflictError, match=r"\.tfrecord\.idx already holds other content: 4 bytes"):
        _compose(store, plan)
    assert store.read(NAME + ".idx") == b"0 1\n"


def test_the_table_has_a_row_per_record_in_the_order_of_the_shard(store: WritableStore, plan: ShardPlan) -> None:
    _compose(store, plan)

    fixes = [[], ["alpha_composited", "upscaled"]]
    numbers = [0, 1, 0, 1, 0]  # of the records in their parts
    assert pq.read_table(io.BytesIO(store.read(TABLE))).to_pydict() == {
        "key": ["2-0.jpg", "2-1.jpg", "4-0.jpg", "4-1.jpg", "7-0.jpg"],
        "label": [("dog", "cät")[number] for number in numbers],
        "class": [(1, 0)[number] for number in numbers],
        "offset": [offset for offset, _ in tfrecord.scan(io.BytesIO(DATA))],
        "bytes": SIZES,
        "height": [8] * 5,
        "width": [12 + number for number in numbers],
        "format": ["png"] * 5,
        "root": numbers,
        "source_bytes": [size + 7 for size in SIZES],
        "version": [10**18 + number for number in numbers],
        "crc32c": [(None, 5)[number] for number in numbers],
        "fixes": [fixes[number] for number in numbers],
        "hash": [None] * 5,
        "duplicate_group": [None] * 5,
    }


def test_a_table_that_another_pyarrow_wrote_is_kept_if_its_rows_are_the_same(
    store: WritableStore, plan: ShardPlan
) -> None:
    first = _compose(store, plan)
    data = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(store.read(TABLE))), data, compression="none", row_group_size=2)
    store.delete(TABLE)
    store.create(TABLE, data.getvalue())

    assert _compose(store, plan) == first
    assert store.read(TABLE) == data.getvalue()


@pytest.mark.parametrize("content", ["another row", "no table"])
def test_another_table_is_a_conflict_and_stays(store: WritableStore, plan: ShardPlan, content: str) -> None:
    _compose(store, plan)
    rows, data = pq.read_table(io.BytesIO(store.read(TABLE))), io.BytesIO(b"no table")
    if content == "another row":
        pq.write_table(
            rows.set_column(rows.schema.get_field_index("root"), "root", pa.array([7] * 5, pa.int32())), data
        )
    store.delete(TABLE)
    store.create(TABLE, data.getvalue())

    with pytest.raises(ConflictError, match=rf"{TABLE} already holds other content.*--discard_incomplete\.$"):
        _compose(store, plan)
    assert store.read(TABLE) == data.getvalue()


def test_rows_are_cut_into_groups_whatever_the_parts(
    store: WritableStore, plan: ShardPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _compose(store, plan)
    rows = pq.read_table(io.BytesIO(store.read(TABLE)))
    store.delete(TABLE)

    monkeypatch.setattr("shardfeed.transforms.publish.record_files.ROW_GROUP", 2)
    assert _compose(store, plan) == whole
    table = pq.ParquetFile(io.BytesIO(store.read(TABLE)))
    assert [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)] == [2, 2, 1]
    assert table.read() == rows


def test_a_shard_of_more_parts_than_are_read_at_a_time_has_a_row_for_each_record(store: WritableStore) -> None:
    parts = [_part(store, number, [b"r"] * (number % 3 + 1)) for number in range(2 * REQUESTS + 1)]

    _compose(store, ShardPlan("train", 0, 1, tuple(parts)))
    keys = [f"{part.part}-{record}.jpg" for part in parts for record in range(part.records)]
    assert pq.read_table(io.BytesIO(store.read(TABLE))).column("key").to_pylist() == keys
    assert store.read(NAME + ".idx").count(b"\n") == len(keys)


def test_a_missing_part_is_incomplete_and_publishes_nothing(store: WritableStore, plan: ShardPlan) -> None:
    part = plan.parts[1]
    store.delete(f"_parts/f/train/00004-{part.crc32c:08x}-{part.bytes}")

    with pytest.raises(IncompleteError, match=rf"^a part of {NAME} is gone .* Rerun the same command\.$"):
        _compose(store, plan)
    assert [name for name, _ in store.list() if not name.startswith("_parts/")] == []


def test_a_missing_sidecar_is_incomplete(store: WritableStore, plan: ShardPlan) -> None:
    store.delete("_parts/f/train/00004.json")

    with pytest.raises(IncompleteError) as found:
        _compose(store, plan)
    assert str(found.value) == "part 4 of train is gone. Rerun the same command."


def test_a_part_that_rotted_since_it_was_found_is_never_published_unnoticed(
    store: WritableStore, plan: ShardPlan
) -> None:
    part = plan.parts[0]
    name = f"_parts/f/train/00002-{part.crc32c:08x}-{part.bytes}"
    data = store.read(name)
    store.delete(name)
    store.create(name, bytes((data[0] ^ 1,)) + data[1:])

    with pytest.raises(ConflictError, match="Something else wrote it"):
        _compose(store, plan)


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ([], ()),
        ([BLOCK_BYTES], ((3, BLOCK_BYTES),)),
        ([BLOCK_BYTES - 1, 1], ((6, BLOCK_BYTES),)),
        ([BLOCK_BYTES, BLOCK_BYTES], ((3, BLOCK_BYTES), (3, BLOCK_BYTES))),
        ([BLOCK_BYTES, 1], ((6, BLOCK_BYTES + 1),)),
        ([BLOCK_BYTES, BLOCK_BYTES, 5, 6], ((3, BLOCK_BYTES), (9, BLOCK_BYTES + 11))),
        ([9 * BLOCK_BYTES, 1, BLOCK_BYTES], ((3, 9 * BLOCK_BYTES), (6, BLOCK_BYTES + 1))),
        ([5, 6], ((6, 11),)),
    ],
    ids=str,
)
def test_blocks_close_at_a_megabyte_and_a_short_tail_joins_the_block_before(
    sizes: list[int], blocks: tuple[tuple[int, int], ...]
) -> None:
    assert blocks_of(PartFile(i, size, 3, 0) for i, size in enumerate(sizes)) == blocks


@pytest.mark.parametrize(
    "sizes",
    [[], [0], [7], [0, 3, 1, 0, 9], [4, (1 << 20) - 1], [4, 1 << 20], [4, (1 << 20) + 1], [4, 5_000_003]],
    ids=str,
)
def test_the_crc_of_a_concatenation_follows_from_its_pieces(sizes: list[int]) -> None:
    pieces = [np.random.default_rng(size).bytes(size) for size in sizes]

    found = crc32c_of_concatenation((crc32c(piece), len(piece)) for piece in pieces)
    assert found == crc32c(b"".join(pieces))
