from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.format.columns import Column
from shardfeed.format.manifest import ImageInfo, Manifest, Shard, Split
from shardfeed.inspection.summary import dataset_summary
from tests.kit.datasets import write_dataset

IMAGE = ImageInfo(224, 224, 3, "jpeg", (118.06, 109.94, 83.2), (70.1, 65.2, 66.0))


def split(name: str, counts: dict[str, int], shards: int) -> Split:
    total = sum(counts.values())
    records = [total // shards + (i < total % shards) for i in range(shards)]
    made = tuple(
        Shard(f"{name}-{i:05d}-of-{shards:05d}.tfrecord", n, 20_000 * n, "00000000", ((n, 20_000 * n),))
        for i, n in enumerate(records)
    )
    return Split(total, 20_000 * total, counts, made)


def manifest(splits: dict[str, Split], classes: tuple[str, ...]) -> Manifest:
    written = sum(of.records for of in splits.values())
    return Manifest(
        fingerprint="5f" * 16,
        config={"channels": "rgb", "class_list": None, "image_size": [224, 224], "seed": 0},
        versions={"encoder": "1", "pillow": "12.1.1"},
        classes=classes,
        listing={"digest": "00", "by_class": {}},
        listed=written + 8,
        written=written,
        rejected={"CORRUPT": 2, "TRUNCATED": 4},
        skipped={"HIDDEN": 2},
        fixes={"orientation": 3, "alpha": 14, "icc": 0},
        image=IMAGE,
        splits=splits,
        files=(),
    )


@pytest.fixture
def show(tmp_path: Path) -> Callable[[Manifest], str]:
    """The summary of a dataset of which only the manifest is there."""

    def shown(of: Manifest) -> str:
        (tmp_path / "manifest.json").write_bytes(of.to_json())
        return dataset_summary(shardfeed.info(tmp_path)).replace(str(tmp_path), "/data/flowers")

    return shown


def test_the_summary_is_complete_and_aligned(show: Callable[[Manifest], str]) -> None:
    classes = ("daisy", "rose", "向日葵")
    train = split("train", {"daisy": 1_200, "rose": 999, "向日葵": 1}, 4)
    test = split("test", {"daisy": 60, "rose": 0, "向日葵": 40}, 1)
    assert show(manifest({"train": train, "test": test}, classes)) == (
        """\
/data/flowers
  images       224 × 224 × 3 rgb, jpeg
  pixels       mean 118.1 109.9 83.2, std 70.1 65.2 66.0
  totals       2,308 listed = 2,300 written + 6 rejected (TRUNCATED 4, CORRUPT 2) + 2 skipped
               (HIDDEN 2)
  fixes        alpha 14, orientation 3
  fingerprint  5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f

  split  records  shards    bytes      min     mean      max
  test       100       1   2.0 MB   2.0 MB   2.0 MB   2.0 MB
  train    2,200       4  44.0 MB  11.0 MB  11.0 MB  11.0 MB

  class      #  test  train    all
  daisy      0    60  1,200  1,260
  rose       1     0    999    999
  向日葵     2    40      1     41
  3 classes      100  2,200  2,300

  config       channels rgb, image_size [224, 224], seed 0
  versions     encoder 1, pillow 12.1.1"""
    )


def test_columns_of_a_table_are_shown_as_their_flag_has_them(show: Callable[[Manifest], str]) -> None:
    columns = (Column("age", "int64", (), -1).to_raw(), Column("box", "float", (4,)).to_raw())
    made = manifest({"train": split("train", {"daisy": 2}, 1)}, ("daisy",))
    text = show(dataclasses.replace(made, columns=columns, config={**made.config, "columns": columns}))
    assert "  columns      age:int64=-1, box:float[4]\n" in text
    assert "  config       channels rgb, image_size [224, 224], seed 0\n" in text


def test_a_dataset_of_ten_classes_fits_a_screen(show: Callable[[Manifest], str]) -> None:
    classes = tuple(f"class {i}" for i in range(10))
    text = show(manifest({"train": split("train", dict.fromkeys(classes, 500), 4)}, classes))
    assert len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 100


def test_of_a_thousand_classes_the_largest_and_the_smallest_are_shown(show: Callable[[Manifest], str]) -> None:
    classes = tuple(f"n{i:04d}" for i in range(1000))
    counts = {name: 1 + (i * 37) % 1000 for i, name in enumerate(classes)}
    lines = show(manifest({"train": split("train", counts, 4)}, classes)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  class "))
    ordered = sorted(classes, key=lambda name: -counts[name])
    rows = [line.split() for line in lines[start + 1 : start + 22]]
    assert [row[0] for row in rows] == [*ordered[:10], "…", *ordered[-10:]]
    assert lines[start + 11] == "  … 980 classes of sizes between …"
    assert [int(row[-1].replace(",", "")) for row in (rows[0], rows[-1])] == [1000, 1]
    assert len(lines) <= 45


def test_names_with_control_characters_cannot_steer_the_terminal(show: Callable[[Manifest], str]) -> None:
    classes = ("\x1b[31mred", "two\nlines", "x" * 100)
    text = show(manifest({"train": split("train", dict.fromkeys(classes, 1), 1)}, classes))
    assert [line for line in text.splitlines() if " 1      1    1" in line] == [
        "  two\\nlines                        1      1    1"
    ]
    assert "\\x1b[31mred" in text
    assert "x" * 31 + "…" in text
    assert text.replace("\n", "").isprintable()


def test_varying_sizes_and_gray_are_said(show: Callable[[Manifest], str]) -> None:
    of = manifest({"train": split("train", {"a": 1}, 1)}, ("a",))
    of = dataclasses.replace(of, image=ImageInfo(None, None, 1, "png", (1.0,), (2.0,)), rejected={}, listed=3, fixes={})
    lines = show(of).splitlines()
    assert lines[1:4] == [
        "  images       varying size × 1 gray, png",
        "  pixels       mean 1.0, std 2.0",
        "  totals       3 listed = 1 written + 0 rejected + 2 skipped (HIDDEN 2)",
    ]


def test_the_summary_reads_the_manifest_alone(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    before = dataset_summary(shardfeed.info(tmp_path))
    for file in tmp_path.iterdir():
        if file.name != "manifest.json":
            file.unlink()
    assert dataset_summary(shardfeed.info(tmp_path)) == before
