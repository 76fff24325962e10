"""Each kind of labels with columns of every type, in whole builds: every reader sees what the table says.

The expected values are computed from the table alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import shardfeed
from tests.kit import builds, disk
from tests.kit.images import photo, write
from tests.kit.metadata import write_table

IMAGES = 18
COLUMNS = "age:int64=-1,blob,box:float[2],codes:int64[],flags:bool[]=,note:string=,site,tags:string[],tame,weight_g"
LISTS = {"codes": 3, "flags": 2, "tags": 2}  # longest of each
KINDS = {
    "single": ("--label_column", "species", "--class_map", "{map}", "--splits", "column:fold"),
    "multi": ("--label_column", "labels", "--class_map", "{map}", "--group_by", "column:patient",
              "--splits", "train=0.5,test=0.5"),
    "none": ("--label_from", "none", "--splits", "column:fold", "--group_by", " (?P<group>[0-9]+)"),
}  # fmt: skip
CLASSES = {"single": ["scarab", "wasp"], "multi": ["old", "scarab", "wasp"], "none": []}
MAP = {"käfer": "scarab", "chafer": "scarab", "blurred": ""}


def rows() -> list[dict[str, Any]]:
    return [
        {
            "file_name": f"{number % 4}/ä {number:02}.jpg",
            "species": "blurred" if number == 7 else ("käfer", "wasp", "chafer")[number % 3],
            "labels": [["käfer", "chafer"], ["wasp", "old"], ["old", "blurred", "käfer"], []][number % 4],
            "fold": "val" if number % 5 == 1 else "train",
            "patient": f"patient {number // 3}",
            "age": None if number % 3 else number - 1,
            "blob": bytes([255, number]),
            "box": [number / 2, -0.1],
            "codes": [number, -number, 1 << 40][: number % 4],
            "flags": None if number == 2 else [number % 2 == 0] * (number % 3),
            "note": "é" if number % 2 else None,
            "site": f"s{number % 3}",
            "tags": [f"t{number}", ""][: number % 3],
            "tame": number % 2 == 0,
            "weight_g": number / 3,
        }
        for number in range(IMAGES)
    ]


def expected(kind: str) -> dict[str, dict[str, Any]]:
    """What a record holds by its key; labels as numbers of classes."""
    found = {}
    for row in rows():
        names = [row["species"]] if kind == "single" else row["labels"] if kind == "multi" else []
        kept = {MAP.get(name, name) for name in names} - {""}
        if kind == "single" and not kept:
            continue
        numbers = sorted(map(CLASSES[kind].index, kept))
        found[row["file_name"]] = {
            "labels": numbers,
            "age": -1 if row["age"] is None else row["age"],
            "flags": row["flags"] or [],
            "note": row["note"] or "",
            **{name: row[name] for name in ("blob", "box", "codes", "site", "tags", "tame", "weight_g")},
        }
    return found


@dataclass(frozen=True)
class Built:
    """A dataset of a kind, by each driver."""

    kind: str
    by_driver: dict[str, Path]

    @property
    def info(self) -> shardfeed.DatasetInfo:
        return shardfeed.info(self.by_driver["local"])


@pytest.fixture(scope="module")
def all_built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    return build_kinds(tmp_path_factory.mktemp("kinds"), *builds.DRIVERS)


def build_kinds(folder: Path, *drivers: str) -> dict[str, Built]:
    """A dataset of each kind by each driver, in ``folder``."""
    for number, row in enumerate(rows()):
        write(folder / "photos", row["file_name"], photo(number))
    table = write_table(folder / "t.parquet", rows())
    lines = "".join(f"{name},{to}\n" for name, to in MAP.items())
    (folder / "map.csv").write_text(f"from,to\n{lines}", encoding="utf-8")

    def build(job: tuple[str, str]) -> None:
        kind, driver = job
        flags = [flag.format(map=folder / "map.csv") for flag in KINDS[kind]]
        table_flags = ("--metadata", str(table), "--columns", COLUMNS, "--num_shards", "2")
        builds.built(folder / "photos", folder / kind / driver, *table_flags, *flags, *builds.DRIVERS[driver])

    builds.each(build, [(kind, driver) for kind in KINDS for driver in drivers])
    return {kind: Built(kind, {driver: folder / kind / driver for driver in drivers}) for kind in KINDS}


@pytest.fixture(params=KINDS)
def built(request: pytest.FixtureRequest, all_built: dict[str, Built]) -> Built:
    return all_built[request.param]


def test_both_drivers_write_the_same_bytes_and_the_splits_that_the_flags_say(built: Built) -> None:
    local, beam = (disk.digests(out) for out in built.by_driver.values())
    assert local == beam
    splits = {row["key"].decode(): split for split, row in disk.records(built.by_driver["local"])}
    if built.kind == "multi":
        groups = {(row["patient"], splits[row["file_name"]]) for row in rows()}
        assert len(groups) == IMAGES / 3 and {split for _, split in groups} == {"train", "test"}
    else:
        folds = {row["file_name"]: {"val": "validation", "train": "train"}[row["fold"]] for row in rows()}
        assert splits == {key: folds[key] for key in expected(built.kind)}


def test_deep_verification_and_the_manifest(built: Built) -> None:
    for out in built.by_driver.values():
        assert shardfeed.verify(out, deep=True).findings == ()
    found, rows = built.info, expected(built.kind)
    counts = {name: sum(number in row["labels"] for row in rows.values()) for number, name in enumerate(found.classes)}
    assert (found.label_kind, list(found.classes)) == (built.kind, CLASSES[built.kind])
    total = {name: sum(split.class_counts.get(name, 0) for split in found.splits.values()) for name in found.classes}
    assert total == counts
    skipped = disk.manifest(built.by_driver["local"])["skipped"]["by_reason"]
    assert skipped == ({"class_map": IMAGES - len(rows)} if built.kind == "single" else {})


def test_the_manifest_declares_the_columns_and_the_tables_hold_them(built: Built) -> None:
    out = built.by_driver["local"]
    declared = {
        column["name"]: (column["type"], column["shape"], column["default"]) for column in disk.manifest(out)["columns"]
    }
    assert declared == {
        "age": ("int64", [], -1),
        "blob": ("bytes", [], None),
        "box": ("float", [2], None),
        "codes": ("int64", [None], None),
        "flags": ("bool", [None], []),
        "note": ("string", [], ""),
        "site": ("string", [], None),
        "tags": ("string", [None], None),
        "tame": ("bool", [], None),
        "weight_g": ("float", [], None),
    }
    stored = {row["key"]: row for path in out.glob("*.parquet") for row in pq.read_table(path).to_pylist()}
    assert {key: {name: row[name] for name in declared} for key, row in stored.items()} == {
        key: {name: as_float32(row)[name] for name in declared} for key, row in expected(built.kind).items()
    }
    features = json.loads((out / "features.json").read_text())["featuresDict"]["features"]
    assert features["tags"]["tensor"] == {"dtype": "string", "encoding": "none", "shape": {"dimensions": ["-1"]}}


def labels_of(kind: str, label: Any) -> list[int]:
    """Numbers of classes, from what a reader gives."""
    return [int(label)] if kind == "single" else np.flatnonzero(label).tolist()


def padded(values: Any, length: int, filler: Any) -> list[Any]:
    return [*values, *[filler] * (length - len(values))]


def of_batches(built: Built, batches: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What batches of arrays hold, by key; each key must come once."""
    found: dict[str, dict[str, Any]] = {}
    for batch in batches:
        for place, key in enumerate(batch["key"]):
            row = {
                name: values[place] for name, values in batch.items() if name not in ("key", "image", "size", "weight")
            }
            assert key.decode() not in found
            assert ("label" in row) == (built.kind != "none")
            labels = labels_of(built.kind, row.pop("label")) if built.kind != "none" else []
            found[key.decode()] = {"labels": labels, **{name: plain(value) for name, value in row.items()}}
    return found


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def as_float32(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: np.float32(row[name]).tolist() for name in ("box", "weight_g")}


def in_batches(kind: str) -> dict[str, dict[str, Any]]:
    """``expected`` as batches hold it: text as bytes, lists filled up, floats of 32 bits."""
    rows = {key: as_float32(row) for key, row in expected(kind).items()}
    for row in rows.values():
        row.update({name: row[name].encode() for name in ("note", "site")})
        row["tags"] = padded([tag.encode() for tag in row["tags"]], LISTS["tags"], b"")
        row["codes"], row["flags"] = (
            padded(row["codes"], LISTS["codes"], 0),
            padded(row["flags"], LISTS["flags"], False),
        )
    return rows


@pytest.mark.parametrize("read", [shardfeed.load, shardfeed.array_batches], ids=["load", "array_batches"])
def test_batches(built: Built, read: Any) -> None:
    def batches() -> Iterator[dict[str, Any]]:
        for split in built.info.splits:
            found = read(built.info, split, 4, training=False, as_dict=True, max_len=LISTS, eval_remainder="partial")
            yield from found.as_numpy_iterator() if read is shardfeed.load else found

    assert of_batches(built, batches()) == in_batches(built.kind)


def test_records(built: Built) -> None:
    found: dict[str, dict[str, Any]] = {}
    for item in (item for split in built.info.splits for item in shardfeed.records(built.info, split)):
        key, label = item.pop("key"), item.pop("label", None)
        assert key not in found and item.pop("image").shape == (16, 16, 3)
        labels = labels_of(built.kind, label) if label is not None else []
        found[key] = {"labels": labels, **{name: plain(value) for name, value in item.items()}}
    assert found == {key: as_float32(row) for key, row in expected(built.kind).items()}
