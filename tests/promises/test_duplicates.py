"""Duplicates: found on every driver, listed, counted; they end a build only if that was asked for."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shardfeed
from shardfeed.transforms.duplicates import find
from tests.kit import builds, disk, hooks, makers
from tests.kit.images import write
from tests.kit.sources import ROOT

SPLITS = ["--splits", "folders", "--num_shards", "2"]


def picture(seed: int, quality: int = 90) -> bytes:
    """A JPEG of 96 x 64 smooth pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 12, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((96, 64), Image.Resampling.BICUBIC).save(file, "JPEG", quality=quality)
    return file.getvalue()


def blank(level: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (40, 40), level).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for number in range(8):
        write(root, f"train/cat/{number}.jpg", picture(number))
        write(root, f"train/dog/{number}.jpg", picture(100 + number))
        write(root, f"test/cat/t{number}.jpg", picture(200 + number))
        write(root, f"test/dog/t{number}.jpg", picture(300 + number))
    write(root, "train/dog/=two labels\u202e.jpg", picture(0, quality=60))  # of train/cat/0.jpg
    write(root, "test/cat/leak.jpg", picture(1))  # train/cat/1.jpg, byte by byte
    write(root, "train/cat/page.png", blank(250))
    write(root, "train/dog/page.png", blank(250))  # the same file
    write(root, "train/dog/other page.png", blank(251))
    return root


DISTANCE = 2  # of the 64 bits; the second picture has a lower quality


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "duplicates.jsonl").read_text().splitlines()]


def groups(folder: Path) -> dict[str, int | None]:
    rows = [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return {row["key"]: row["duplicate_group"] for row in rows}


def edge(group: int, keys: list[str], labels: str, splits: str, distance: int, exact: bool) -> dict[str, object]:
    pair = {"keys": keys, "labels": labels.split(), "splits": splits.split()}
    return {"group": group, "images": 2, **pair, "distance": distance, "exact": exact}


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_duplicates_are_listed_counted_and_in_the_tables_and_end_the_build_if_asked_to(
    photos: Path, tmp_path: Path, driver: str
) -> None:
    out, flags = tmp_path / "out", (*SPLITS, *builds.DRIVERS[driver])
    summary = builds.built(photos, out, *flags).out
    found = lines(out)
    assert found == [
        edge(0, ["test/cat/leak.jpg", "train/cat/1.jpg"], "cat cat", "test train", 0, True),
        edge(1, ["train/cat/0.jpg", "train/dog/=two labels\u202e.jpg"], "cat dog", "train train", DISTANCE, False),
        edge(2, ["train/cat/page.png", "train/dog/page.png"], "cat dog", "train train", 0, True),
    ]  # fmt: skip
    assert "\u202e" not in (out / "duplicates.jsonl").read_text()
    assert disk.manifest(out)["duplicates"] == {
        "groups": 3, "pairs": 3, "exact": 2, "labels": 2, "splits": 1, "flat": 3, "crowded": 0,
    }  # fmt: skip
    grouped = {key: group for key, group in groups(out).items() if group is not None}
    assert grouped == {key: line["group"] for line in found for key in line["keys"]}  # type: ignore[attr-defined]
    assert "3 pairs of near-duplicates: 2 with two labels, 1 across splits -> duplicates.jsonl" in summary
    assert shardfeed.verify(out, deep=True).findings == ()

    failed = tmp_path / "failed"
    ended = builds.build(photos, failed, *flags, "--duplicates", "fail")
    assert ended.code == 3
    assert [path.name for path in failed.iterdir()] == ["_parts"]
    (listed,) = failed.glob("_parts/*/duplicates.jsonl")
    assert str(listed) in ended.err
    assert listed.read_bytes() == (out / "duplicates.jsonl").read_bytes()
    summary = builds.built(photos, failed, *flags).out
    assert "37 images kept from an earlier run" in summary
    assert disk.digests(failed) == disk.digests(out)
    ended = builds.build(photos, out, *flags, "--duplicates", "fail")  # the dataset is there already
    assert (ended.code, "duplicates.jsonl" in ended.err) == (3, True)


def _kill_after_near_pairs() -> None:
    hooks.put(find, "join_equal", lambda *_: hooks.kill_self())


def test_killed_while_pictures_are_compared_the_rerun_by_the_other_driver_gives_the_same_bytes(
    photos: Path, tmp_path: Path
) -> None:
    for driver in builds.DRIVERS:
        killed = builds.build(
            photos, tmp_path / driver, *SPLITS, *builds.DRIVERS[driver], hooks=[_kill_after_near_pairs]
        )
        assert (killed.code, "duplicates.jsonl" in disk.files(tmp_path / driver)) == (-9, False)
    builds.built(photos, tmp_path / "whole", *SPLITS)
    for driver, other in zip(builds.DRIVERS, reversed(builds.DRIVERS), strict=True):
        builds.built(photos, tmp_path / driver, *SPLITS, *builds.DRIVERS[other])
        assert disk.digests(tmp_path / driver) == disk.digests(tmp_path / "whole")


def test_with_off_nothing_is_compared(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = builds.built(photos, out, *SPLITS, "--duplicates", "off").out
    manifest = disk.manifest(out)
    assert (manifest["duplicates"], manifest["config"]["duplicates"], "duplicates" in summary) == (None, "off", False)
    assert not (out / "duplicates.jsonl").exists()
    assert set(groups(out).values()) == {None}
    assert builds.build(photos, out, *SPLITS).code == 5


def test_a_dataset_without_duplicates_has_an_empty_list(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / "photos", f"cat/{number}.jpg", picture(number))
    summary = builds.built(tmp_path / "photos", tmp_path / "out", "--num_shards", "1", "--duplicates", "fail").out
    assert (tmp_path / "out" / "duplicates.jsonl").read_bytes() == b""
    assert "duplicates none" in summary


def test_one_picture_in_each_format_is_one_group(tmp_path: Path) -> None:
    photo = Image.open(min((ROOT / "examples" / "sample_photos").rglob("*.jpg"))).convert("RGB")
    for kind in ("jpeg", "png", "webp", "gif", "bmp", "avif", "tiff"):
        write(tmp_path / "photos", f"cat/photo.{kind}", makers.saved(photo, kind))
    out = tmp_path / "out"
    builds.built(tmp_path / "photos", out, "--num_shards", "1", "--formats", "default,tiff")
    assert disk.manifest(out)["duplicates"]["pairs"] == 6
    assert set(groups(out).values()) == {0}


def test_sets_of_labels_that_differ_are_a_conflict(tmp_path: Path) -> None:
    sets = {"a1": ["red", "hat"], "a2": ["hat", "red"], "b1": ["hat"], "b2": ["hat", "red"], "c1": ["hat"], "c2": []}
    for number, name in enumerate(sets):
        write(tmp_path / "photos", f"{name}.jpg", picture(number // 2, quality=90 - number % 2))
    table = "".join(json.dumps({"file_name": f"{name}.jpg", "tags": tags}) + "\n" for name, tags in sets.items())
    (tmp_path / "t.jsonl").write_text(table)
    flags = ("--metadata", str(tmp_path / "t.jsonl"), "--label_column", "tags")

    summary = builds.built(tmp_path / "photos", tmp_path / "out", *flags).out

    assert [line["labels"] for line in lines(tmp_path / "out")] == [
        [["hat", "red"]] * 2,
        [["hat"], ["hat", "red"]],
        [["hat"], []],
    ]
    assert "3 pairs of near-duplicates: 2 with two labels, 0 across splits" in summary


def test_a_large_group_is_listed_in_part_and_counted_whole(tmp_path: Path) -> None:
    for number in range(120):
        write(tmp_path / "photos", f"cat/{number:03}.jpg", picture(1))
    builds.built(tmp_path / "photos", tmp_path / "out", "--num_shards", "1")
    found = lines(tmp_path / "out")
    assert [line["keys"] for line in found] == [["cat/000.jpg", f"cat/{number:03}.jpg"] for number in range(1, 101)]
    assert {line["images"] for line in found} == {120}
    assert disk.manifest(tmp_path / "out")["duplicates"]["pairs"] == 119
