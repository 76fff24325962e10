"""The commit: what the manifest says, that it comes last, and the sweep after it."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import ConflictError, IncompleteError, UsageError
from shardfeed.format import record_index
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import Manifest, canonical_json, parse_manifest
from shardfeed.format.record_table import table_value
from shardfeed.storage import Stat
from shardfeed.transforms.elements import (
    Counts,
    Duplicates,
    FileResult,
    PartFile,
    PartResult,
    Plan,
    ShardPlan,
    ShardResult,
    SplitPlan,
    SplitTotals,
    Totals,
)
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import Claim
from shardfeed.transforms.output.part_files import Sidecar, commit_part
from shardfeed.transforms.publish.composing import compose_shard
from shardfeed.transforms.publish.manifest_commit import RunRecord, commit, drop_claim, finish, leftovers, sweep
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.rows import rows_of

ONE, TWO = "e" * 32, "f" * 32
OPTIONS = BuildOptions(image=ImageOptions(height=8, width=12), splits="train=0.8,test=0.2")
PLAN = Plan(
    "f" * 32,
    ("cat", "dög", "x\ny"),
    {"pillow": "12"},
    6,
    {"test": SplitPlan(16, None, 2), "train": SplitPlan(16, None, 4)},
)
TOTALS = Totals(
    {
        "test": SplitTotals(2, 20, 0, 0, {"cat": (2, 20)}),
        "train": SplitTotals(4, 40, 0, 0, {"cat": (2, 20), "dög": (2, 20)}),
    },
    digest=255,
    skipped={"hidden": 3},
)
COUNTS = Counts(
    images={"test": 2, "train": 4},
    rejected={"EMPTY": 1},
    fixes={"upscaled": 2},
    class_counts={"test": {"cat": 2}, "train": {"cat": 1, "dög": 1, "x\ny": 1}},
    stats=(4, (10, 20, 30), (30, 110, 250)),
    rejects_by_part=(("train", 0, 1),),
)
RUN = RunRecord("run-1", "2026-01-02T03:04:05+00:00", ("/photos",), "DirectRunner")
INDEXES = ["test.index", "test.classes", "train.index", "train.classes"]
SIDE_FILES = ["class.labels.txt", "classes.txt", "dataset_info.json", "features.json"]


def _shard(store: WritableStore, split: str, records: int, index: int = 0, count: int = 1) -> ShardResult:
    data = b"r" * 10 * records
    result = PartResult(split, index, len(data), records, crc32c(data), 0, {}, {}, {}, None)
    commit_part(store, "f" * 32, Sidecar(result, rows_of([10] * records, classes=(0, 1, 2)), (), {}), data)
    plan = ShardPlan(split, index, count, (PartFile(index, len(data), records, crc32c(data)),))
    return compose_shard(store, PLAN, BuildOptions(), Duplicates(), plan)


def _shards(store: WritableStore) -> list[ShardResult]:
    return [_shard(store, "train", 3), _shard(store, "test", 2)]


def _commit(
    store: WritableStore, options: BuildOptions = OPTIONS, counts: Counts = COUNTS, **changes: object
) -> Manifest:
    store.create("_parts/CLAIM", Claim(PLAN.fingerprint, options.config()).to_bytes())
    if "shards" not in changes:
        changes["shards"] = _shards(store)
    if "rejects" not in changes:
        store.create("rejects-00000-of-00001.jsonl", b"rejected\n")
        changes["rejects"] = [FileResult("rejects-00000-of-00001.jsonl", 9, 5)]
    usual = {"plan": PLAN, "duplicates": Duplicates(), "totals": TOTALS, "record": RUN, "unmatched": b""}
    return commit(store, counts=counts, options=options, **{**usual, **changes})  # type: ignore[arg-type]


def _digest(store: WritableStore, split: str) -> int:
    return table_value(io.BytesIO(store.read(f"{split}-00000-of-00001.parquet")))[1]


def test_the_manifest_says_everything_and_classes_are_one_a_line(store: WritableStore) -> None:
    manifest = _commit(store)

    raw = json.loads(store.read("manifest.json"))
    files, tables = raw.pop("files"), raw.pop("tables")
    assert tables == [
        {"file": f"{split}-00000-of-00001.parquet", "rows": records, "digest": f"{_digest(store, split):032x}"}
        for split, records in (("test", 2), ("train", 3))
    ]
    indexes = [f"{split}-00000-of-00001.tfrecord.idx" for split in ("test", "train")] + INDEXES
    assert [file["file"] for file in files] == sorted([*SIDE_FILES, "rejects-00000-of-00001.jsonl", *indexes])
    assert raw == {
        "schema_version": 2,
        "columns": [],
        "label_kind": "single",
        "duplicates": None,
        "formats": ["avif", "bmp", "gif", "heic", "jpeg", "png", "webp"],
        "fingerprint": "f" * 32,
        "config": OPTIONS.config(),
        "versions": {"pillow": "12"},
        "classes": ["cat", "dög", "x\ny"],
        "listing": {
            "digest": "000000000000000000000000000000ff",
            "by_class": {"cat": [4, 40], "dög": [2, 20]},
            "by_split": {"test": {"cat": [2, 20]}, "train": {"cat": [2, 20], "dög": [2, 20]}},
        },
        "listed": 9,
        "written": 5,
        "rejected": {"total": 1, "by_reason": {"EMPTY": 1}},
        "skipped": {"total": 3, "by_reason": {"hidden": 3}},
        "fixes": {"upscaled": 2},
        "image": {
            "height": 8,
            "width": 12,
            "channels": 3,
            "format": "jpeg",
            "mean": [2.5, 5.0, 7.5],
            "std": [1.118, 1.581, 2.5],
        },
        "splits": {
            split: {
                "records": records,
                "bytes": records * 10,
                "class_counts": counts,
                "shards": [
                    {
                        "file": f"{split}-00000-of-00001.tfrecord",
                        "records": records,
                        "bytes": records * 10,
                        "crc32c": f"{crc32c(b'r' * 10 * records):08x}",
                        "blocks": [[records, records * 10]],
                    }
                ],
            }
            for split, records, counts in (
                ("test", 2, {"cat": 2, "dög": 0, "x\ny": 0}),
                ("train", 3, {"cat": 1, "dög": 1, "x\ny": 1}),
            )
        },
    }
    assert parse_manifest(store.read("manifest.json"), "m") == manifest
    assert store.read("classes.txt").decode() == "cat\ndög\nx\\ny\n"


def test_every_file_that_it_names_is_there_with_its_crc(store: WritableStore) -> None:
    manifest = _commit(store, rejects=[])

    for file in manifest.files:
        assert store.checksum(file.file) == (file.bytes, int(file.crc32c, 16))
    named = {file.file for file in manifest.files} | {table.file for table in manifest.tables}
    shards = {"test-00000-of-00001.tfrecord", "train-00000-of-00001.tfrecord"}
    published = {name for name, _ in store.list() if not name.startswith("_parts/")}
    assert published == named | shards | {"manifest.json", "run.json"}


def test_the_mapped_index_has_the_offset_and_the_class_of_each_record_in_the_order_of_the_shards(
    store: WritableStore,
) -> None:
    shards = [_shard(store, "train", 3, 1, 2), _shard(store, "train", 2, 0, 2)]

    _commit(store, shards=[*shards[::-1], _shard(store, "test", 1)])

    index, classes = store.read("train.index"), store.read("train.classes")
    expected = {"fingerprint": PLAN.fingerprint, "records": 5, "shards": 2}
    for column, data in (("offsets", index), ("classes", classes)):
        header = asdict(record_index.parse_header(data, column))  # type: ignore[arg-type]
        assert header == {"column": column, **expected, "crc32c": crc32c(data[record_index.INDEX_HEADER_BYTES :])}
    assert struct.unpack_from("<5Q", index, 64) == (0, 10, 0, 10, 20)
    assert struct.unpack_from("<5i", classes, 64) == (0, 1, 0, 1, 2)
    assert (len(index), len(classes)) == (64 + 5 * 8, 64 + 5 * 4)


def test_a_torn_piece_of_the_index_heals(store: WritableStore) -> None:
    for name in ("train-00000-of-00001.tfrecord.offsets", "test.classes.header"):
        store.create(f"_parts/{PLAN.fingerprint}/index/{name}", b"torn")

    test_every_file_that_it_names_is_there_with_its_crc(store)


def test_a_joined_build_whose_pieces_are_swept_commits_all_the_same_and_with_the_claim_its_folder_goes(
    store: WritableStore,
) -> None:
    shards = _shards(store)
    first = _commit(store, shards=shards)
    for names in leftovers(store, keep_parts=False):
        sweep(store, names)

    assert _commit(store, shards=shards) == first
    assert [name for name, _ in store.list("_parts/")] == ["_parts/CLAIM"]
    assert drop_claim(store) == 0
    assert not Path(store.url, "_parts").exists()


def test_a_piece_of_the_index_that_is_gone_stops_the_commit(store: WritableStore) -> None:
    shards = _shards(store)
    store.delete(f"_parts/{PLAN.fingerprint}/index/test-00000-of-00001.tfrecord.classes")

    with pytest.raises(IncompleteError, match=r"^a part of test\.classes is gone .* Rerun the same command\.$"):
        _commit(store, shards=shards)
    assert store.stat("manifest.json") is None


class _Noting(WritableLocalStore):
    """Notes every file that it publishes, and whether it is synced to the disk."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.published: dict[str, bool] = {}

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        self._note(name, durable)
        return super().create(name, data, durable=durable)

    def compose(self, name: str, sources: Sequence[str], *, scratch: str) -> bool:
        self._note(name, True)
        return super().compose(name, sources, scratch=scratch)

    def _note(self, name: str, durable: bool) -> None:
        if "/" not in name:
            self.published[name] = durable


def test_run_json_has_paths_that_are_not_utf8_as_text() -> None:
    name = os.fsdecode(b"caf\xe9")
    found = json.loads(RunRecord("r", "now", (name,), "local", list_root=name).to_json(b"{}"))
    assert (found["inputs"], found["list_root"]) == (["caf\\xe9"], "caf\\xe9")
    assert "list_root" not in json.loads(RUN.to_json(b"{}"))


def test_the_manifest_is_last_but_for_run_json_and_everything_is_synced(tmp_path: Path) -> None:
    store = _Noting(str(tmp_path))
    _commit(store)
    ends = (".tfrecord", ".tfrecord.idx", ".parquet")
    shards = [f"{split}-00000-of-00001{end}" for split in ("train", "test") for end in ends]
    rejects = "rejects-00000-of-00001.jsonl"
    assert list(store.published) == [*shards, rejects, *INDEXES, *SIDE_FILES, "manifest.json", "run.json"]
    unsynced = {name for name, durable in store.published.items() if not durable}
    assert unsynced == {rejects, "run.json"}  # the one is this file's helper's; the other can be made again


def test_only_run_json_knows_the_clock(store: WritableStore, tmp_path: Path) -> None:
    other = WritableLocalStore(str(tmp_path / "other"))
    _commit(store)
    _commit(other, record=replace(RUN, run_id="run-2", started="later", inputs=("/elsewhere",)))

    names = [name for name, _ in store.list()]
    assert names == [name for name, _ in other.list()]
    assert [name for name in names if store.read(name) != other.read(name)] == ["run.json"]
    record = json.loads(store.read("run.json"))
    assert record.pop("crc32c") == to_hex(crc32c(canonical_json(record)))
    assert record == {
        "run_id": "run-1",
        "started": "2026-01-02T03:04:05+00:00",
        "inputs": ["/photos"],
        "runner": "DirectRunner",
        "manifest_crc32c": to_hex(crc32c(store.read("manifest.json"))),
    }


def test_committing_again_finds_everything_there(store: WritableStore) -> None:
    first = _commit(store)
    before = [(name, store.read(name)) for name, _ in store.list()]

    assert _commit(store, record=replace(RUN, run_id="run-2")) == first
    assert [(name, store.read(name)) for name, _ in store.list()] == before


@pytest.mark.parametrize("stray", ["train-00000-of-00002.tfrecord", "old.index"], ids=["of shards", "of a split"])
def test_a_shard_that_the_manifest_would_not_name_stops_the_commit(store: WritableStore, stray: str) -> None:
    store.create(stray, b"x")

    with pytest.raises(ConflictError) as found:
        _commit(store)
    assert str(found.value) == (
        f"{store.url} holds shards that are not this dataset's: {stray}. Another build wrote here. Remove them with "
        "--discard_incomplete, or give another --output."
    )
    assert store.stat("manifest.json") is None


@pytest.mark.parametrize(
    "gone",
    [
        "train-00000-of-00001.tfrecord",
        "test-00000-of-00001.tfrecord.idx",
        "test-00000-of-00001.parquet",
        "rejects-00000-of-00001.jsonl",
    ],
)
def test_a_file_that_is_gone_stops_the_commit(tmp_path: Path, gone: str) -> None:
    class _Discarded(WritableLocalStore):
        def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
            self.delete(gone)
            return super().list(prefix)

    store = _Discarded(str(tmp_path))
    with pytest.raises(IncompleteError, match="was discarded by another command"):
        _commit(store)
    assert store.stat("manifest.json") is None


def test_another_manifest_is_a_conflict_and_stays(store: WritableStore) -> None:
    store.create("manifest.json", b"{}")

    with pytest.raises(ConflictError, match=r"manifest\.json already holds other content"):
        _commit(store)
    assert store.read("manifest.json") == b"{}"


def test_mean_and_deviation_are_numpys_to_three_decimals(store: WritableStore) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5_000, 3))
    stats = (len(pixels), tuple(pixels.sum(0).tolist()), tuple((pixels**2).sum(0).tolist()))

    image = _commit(store, counts=replace(COUNTS, stats=stats)).image
    assert image.mean == tuple(np.round(pixels.mean(0), 3).tolist())
    assert image.std == tuple(np.round(pixels.std(0), 3).tolist())


@pytest.mark.parametrize(("channels", "none"), [("rgb", (0.0, 0.0, 0.0)), ("gray", (0.0,))])
def test_a_sample_of_no_image_still_gives_a_manifest_that_can_be_read(
    store: WritableStore, channels: Any, none: tuple[float, ...]
) -> None:
    options = replace(OPTIONS, image=replace(OPTIONS.image, channels=channels))

    _commit(store, options, replace(COUNTS, stats=None))
    image = parse_manifest(store.read("manifest.json"), "m").image
    assert (image.channels, image.mean, image.std) == (len(none), none, none)


@pytest.mark.parametrize("resize", ["shortest", "longest"])
def test_sides_that_vary_are_null(store: WritableStore, resize: Any) -> None:
    image = _commit(store, BuildOptions(image=ImageOptions(resize=resize))).image
    assert (image.height, image.width) == (None, None)


def test_leftovers_are_everything_below_parts_but_the_claim_and_what_is_kept_in_batches(
    store: WritableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardfeed.transforms.publish.manifest_commit._SWEEP_BATCH", 2)
    ours = [f"_parts/{ONE}/train/00001.json", f"_parts/{TWO}/x", f"_parts/{TWO}/y"]
    for name in (*ours, "_parts/CLAIM", "_parts/outcome-1.json", "_parts/theirs/y", "classes.txt"):
        store.create(name, b"")

    batches = list(leftovers(store, "_parts/outcome-1.json", keep_parts=False))
    assert sorted(name for batch in batches for name in batch) == ours
    assert [len(batch) for batch in batches] == [2, 1]


@pytest.mark.parametrize("keep_parts", [False, True])
def test_what_a_stopped_build_left_undone_is_done(store: WritableStore, tmp_path: Path, keep_parts: bool) -> None:
    _commit(store)
    store.delete("run.json")
    parts = {name for name, _ in store.list("_parts/")} - {"_parts/CLAIM"}
    assert parts

    finish(store, RUN, keep_parts=keep_parts)

    assert json.loads(store.read("run.json"))["run_id"] == "run-1"
    assert {name for name, _ in store.list("_parts/")} == (parts if keep_parts else set())
    assert (tmp_path / "out" / "_parts").exists() == keep_parts


def test_what_may_not_be_deleted_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class _Locked(WritableLocalStore):
        def delete(self, name: str, version: int | None = None) -> None:
            if name.endswith("locked"):
                raise UsageError("cannot delete from the output")
            super().delete(name)

    store = _Locked(str(tmp_path))
    for name in ("_parts/locked", "_parts/free"):
        store.create(name, b"")

    assert sweep(store, ["_parts/locked", "_parts/free", "_parts/gone"]) == 1
    assert caplog.messages == [f"could not delete {tmp_path}/_parts/locked: cannot delete from the output"]
    assert [name for name, _ in store.list()] == ["_parts/locked"]

    caplog.clear()
    assert sweep(store, ["_parts/1-locked", "_parts/2-locked", "_parts/3-locked"]) == 3
    assert caplog.messages == [f"could not delete {tmp_path}/_parts/1-locked and 2 more: cannot delete from the output"]
