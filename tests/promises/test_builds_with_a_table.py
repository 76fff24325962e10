"""Builds that take labels, splits and columns from a table: P1, P3, P4 and P7 hold with it too."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

import shardfeed
from shardfeed.words import plural
from tests.kit import builds, disk, hooks
from tests.kit.builder import Ended
from tests.kit.images import photo, write
from tests.kit.metadata import write_table

LABEL = ("--label_column", "species")
COLUMNS = ("--columns", "age:int64=-1,weight_g,site,tags,box:float[2],tame", "--splits", "column:fold")
IMAGES = 9


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos directly in the root and in folders, and a file that is none."""
    root = tmp_path_factory.mktemp("input") / "photos"
    for number in range(IMAGES - 1):
        write(root, f"{number % 3}/{number}.jpg" if number % 2 else f"{number}.jpg", photo(number))
    write(root, "bad.jpg", b"\xff\xd8 no more")
    return root


def rows_of(photos: Path) -> list[dict[str, Any]]:
    keys = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.jpg"))
    return [
        {
            "file_name": key,
            "species": ("käfer", "wasp")[number % 2],
            "age": None if number == 3 else number,
            "weight_g": number / 8,
            "site": f"s{number % 3}",
            "tags": ["x"] * (number % 3),
            "box": [number + 0.5, -1.0],
            "tame": number % 2 == 0,
            "fold": "val" if number in (1, 2) else "train",
        }
        for number, key in enumerate(keys)
    ]


@pytest.fixture(scope="module")
def built(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    table = write_table(folder / "t.parquet", rows_of(photos))
    builds.built(photos, folder / "out", "--metadata", str(table), *LABEL, *COLUMNS)
    return folder / "out"


@pytest.mark.parametrize("driver", builds.DRIVERS.values(), ids=list(builds.DRIVERS))
def test_order_format_compression_and_other_columns_change_no_byte(
    driver: Sequence[str], photos: Path, built: Path, tmp_path: Path
) -> None:
    rows = rows_of(photos)
    random.Random(1).shuffle(rows)
    rows = [{"note": "new", **row} for row in [*rows, rows[0]]]  # and a row twice
    table = write_table(tmp_path / "other.jsonl.gz", rows)

    builds.built(photos, tmp_path / "out", "--metadata", str(table), *LABEL, *COLUMNS, *driver)

    assert disk.digests(tmp_path / "out") == disk.digests(built)
    again = builds.built(photos, built, "--metadata", str(table), *LABEL, *COLUMNS)
    assert "Already built" in again.out


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({0: {"age": 50}, 4: {"tags": []}}, "2 images with another row in --metadata: "),
        ({0: {"fold": "val"}}, "  train/käfer: "),
    ],
    ids=["two rows", "a split"],
)
def test_a_changed_cell_is_another_dataset_and_the_rows_that_differ_are_counted(
    change: dict[int, dict[str, Any]], expected: str, photos: Path, built: Path, tmp_path: Path
) -> None:
    rows = [{**row, **change.get(number, {})} for number, row in enumerate(rows_of(photos))]
    table = write_table(tmp_path / "t.parquet", rows)

    ended = builds.build(photos, built, "--metadata", str(table), *LABEL, *COLUMNS)

    assert ended.code == 5
    assert expected in ended.err
    assert f"{plural(len(change), 'image')} with another row" in ended.err


@pytest.mark.parametrize("driver", builds.DRIVERS.values(), ids=list(builds.DRIVERS))
def test_what_does_not_match_ends_the_build_before_any_work(
    driver: Sequence[str], photos: Path, tmp_path: Path
) -> None:
    rows = rows_of(photos)
    rows[0]["file_name"], rows[1]["file_name"] = "none/1.jpg", "none/2.jpg"

    def end(rows: list[dict[str, Any]], *flags: str) -> tuple[int, str]:
        table = write_table(tmp_path / "t.parquet", rows)
        ended = builds.build(photos, tmp_path / "out", "--metadata", str(table), *LABEL, *flags, *driver)
        assert disk.files(tmp_path / "out") == [] or ended.code == 0
        return ended.code, ended.err

    without_rows = "images without a row in --metadata: 2 (0.jpg, 0/3.jpg)"
    assert end(rows) == (
        2,
        f"shardfeed: rows of --metadata without an image in --input: 2 (none/1.jpg, none/2.jpg); {without_rows}. A row names its "
        "image by the path below the input. Name another --key_column, add what is missing with --key_format 'train/{}.jpg', or "
        "go on without them: --max_unmatched 2 lists them in unmatched.jsonl.\n",
    )
    assert end(rows[2:]) == (
        2,
        f"shardfeed: {without_rows}. Add rows, leave the images out of --input, or go on without them: --max_unmatched 2 lists "
        "them in unmatched.jsonl.\n",
    )
    assert end([*rows, {**rows[4], "species": "bee"}]) == (
        2,
        f"shardfeed: --metadata has images with two different rows (1): {rows[4]['file_name']} (rows 5 and 10). Rows count as "
        "equal if label, split, group and stored columns are. Remove one of each two.\n",
    )
    assert end(rows, "--max_unmatched", "2")[0] == 0
    manifest = disk.manifest(tmp_path / "out")
    assert (manifest["listed"], manifest["written"], manifest["skipped"]) == (
        IMAGES,
        IMAGES - 3,
        {"by_reason": {"no_row": 2}, "total": 2},
    )
    assert manifest["listing"]["rows_without_image"] == 2
    assert [json.loads(line) for line in (tmp_path / "out" / "unmatched.jsonl").read_text().splitlines()] == [
        {"key": "none/1.jpg", "reason": "no_image"},
        {"key": "none/2.jpg", "reason": "no_image"},
        {"key": "0.jpg", "reason": "no_row"},
        {"key": "0/3.jpg", "reason": "no_row"},
    ]
    assert shardfeed.verify(tmp_path / "out", deep=True).findings == ()


def test_of_several_labels_a_changed_one_is_counted_too(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"file_name": f"{number}.jpg", "tags": ["a", "b"][number:]} for number in range(3)]
    for row in rows:
        write(tmp_path / "photos", row["file_name"], photo(1))
    flags = ("--label_column", "tags", "--metadata")
    builds.built(tmp_path / "photos", tmp_path / "out", *flags, str(write_table(tmp_path / "t.jsonl", rows)))
    rows[0]["tags"] = ["b", "a", "b"]
    same = str(write_table(tmp_path / "same.jsonl", rows))
    assert "Already built" in builds.built(tmp_path / "photos", tmp_path / "out", *flags, same).out
    rows[1]["tags"] = ["a"]

    other = str(write_table(tmp_path / "other.jsonl", rows))
    ended = builds.build(tmp_path / "photos", tmp_path / "out", *flags, other)

    assert ended.code == 5
    assert "1 image with another row in --metadata: 1.jpg" in ended.err


def test_tables_of_several_folders_are_as_one_table_of_all(tmp_path: Path) -> None:
    rows = [{"file_name": f"{n}.jpg", "species": f"s{n % 2}", "age": n} for n in range(4)]
    photos, more = tmp_path / "photos", [{**row, "age": 9} for row in rows]
    for row in rows:
        write(photos / "train", str(row["file_name"]), photo(1))
        write(photos / "val", str(row["file_name"]), photo(2))
    more[3]["file_name"] = f"{photos}/val/3.jpg"  # a full address is one here too
    one, two = write_table(photos / "train" / "t.csv", rows), write_table(photos / "val" / "t.jsonl", more)
    merged = [
        {**row, "file_name": f"{part}/{n}.jpg"}
        for part, of in (("train", rows), ("val", more))
        for n, row in enumerate(of)
    ]
    flags = ("--splits", "folders", "--label_column", "species", "--columns", "age")

    def build(name: str, *tables: Path, driver: str = "local") -> Ended:
        given = [text for table in tables for text in ("--metadata", str(table))]
        return builds.build(photos, tmp_path / name, *flags, *given, *builds.DRIVERS[driver])

    assert build("whole", write_table(tmp_path / "t.parquet", merged)).code == 0
    for driver in builds.DRIVERS:
        assert build(driver, one, two, driver=driver).code == 0
        assert disk.digests(tmp_path / driver) == disk.digests(tmp_path / "whole")
    twice = write_table(photos / "val" / "again.csv", [{**more[0], "age": 8}])
    text = write_table(photos / "val" / "text.csv", [{**more[0], "age": "old"}])
    elsewhere = tmp_path / "t.parquet"
    differ = "differ in the types of their columns: species, age:int64; and species, age:string. Declare the types"
    for tables, said in (
        ((one, two, twice), "two different rows (1): val/0.jpg (rows 1 of table 2 and 2 of table 3)"),
        ((one, text), differ),
        ((one, elsewhere), "t.parquet does not lie below --input. If several tables are given, each names its"),
    ):
        ended = build("refused", *tables)
        assert (ended.code, said in ended.err) == (2, True), ended.err


def test_a_table_gives_columns_to_images_whose_class_is_their_folder(tmp_path: Path) -> None:
    for name in ("cat/1.jpg", "cat/2.jpg"):
        write(tmp_path / "photos", name, photo(1))
    table = write_table(tmp_path / "t.csv", [{"id": "2", "age": 5}, {"id": "1", "age": 4}])
    flags = ("--metadata", str(table), "--columns", "age", "--key_column", "id", "--key_format", "cat/{}.jpg")

    builds.built(tmp_path / "photos", tmp_path / "out", *flags)

    found = {row["key"]: (row["label"], row["age"]) for _, row in disk.records(tmp_path / "out")}
    assert found == {b"cat/1.jpg": (b"cat", 4), b"cat/2.jpg": (b"cat", 5)}


def _kill_in_bucket(bucket: int) -> None:
    from shardfeed.transforms.metadata import join_here

    count, match = iter(range(1 << 30)), vars(join_here)["match_bucket"]

    def matching(refs: Any, rows: Any) -> Any:
        if next(count) == bucket:
            os.kill(os.getpid(), SIGKILL)
        return match(refs, rows)

    hooks.put(join_here, "match_bucket", matching)
    hooks.put(join_here, "_RUN", 1)  # through files


def test_killed_in_the_join_it_leaves_nothing_and_the_rerun_gives_the_same_bytes(
    photos: Path, built: Path, tmp_path: Path
) -> None:
    table, out = write_table(tmp_path / "t.parquet", rows_of(photos)), tmp_path / "out"
    flags = ("--metadata", str(table), *LABEL, *COLUMNS)

    assert builds.build(photos, out, *flags, hooks=[partial(_kill_in_bucket, 500)]).code == -9

    assert disk.files(tmp_path) == ["t.parquet"]
    builds.built(photos, out, *flags)
    assert disk.digests(out) == disk.digests(built)


def test_plan_forecasts_what_the_table_says_and_writes_nothing(photos: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.parquet", rows_of(photos))
    flags = ("--metadata", str(table), *LABEL, *COLUMNS, "--json")

    ended = builds.run("plan", *builds.build_args(photos, tmp_path / "out", *flags)[1:])

    assert ended.code == 0, ended.err
    assert {name: split["by_class"] for name, split in json.loads(ended.out)["splits"].items()} == {
        "train": {"käfer": 4, "wasp": 3},
        "validation": {"käfer": 1, "wasp": 1},
    }
    assert disk.files(tmp_path) == ["t.parquet"]
