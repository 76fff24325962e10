"""``shardfeed find``: lines, JSON, the sheet, exit codes."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.cli.main import main
from shardfeed.inspection.contact_sheet import draw_sheet
from shardfeed.inspection.find import find, stored_records
from shardfeed.inspection.hit_lines import json_line
from tests.kit.commands import command, environment
from tests.kit.datasets import Written, write_dataset


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Raw images of 8 x 12 pixels in two splits."""
    splits = {"test": 3, "train": 40}
    return write_dataset(tmp_path / "out", splits=splits, image_format="raw", classes=("a", "größe\t2"))


def said(capsys: pytest.CaptureFixture[str], written: Written, *args: str) -> str:
    """What the command prints, which ends well."""
    assert main(["find", str(written.path), *args]) == 0
    ended = capsys.readouterr()
    assert ended.err == ""
    return ended.out


def rows(written: Written, where: str) -> list[dict[str, Any]]:
    info = shardfeed.info(written.path)
    return [dict(row) for hits in find(info, where, list(info.splits.values())) for row in hits.rows(1000)]


def test_a_line_per_hit_and_the_count_behind_them(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, written, "--where", "number in (1, 30) and height = 8") == (
        f"""\
  test   1  test-00001-of-00003.tfrecord   größe\\t2      8x12        419 B  test/größe\\t2/00001.jpg
  train  1  train-00000-of-00003.tfrecord  größe\\t2      8x12        420 B  train/größe\\t2/00001.jpg
  train 30  train-00002-of-00003.tfrecord  größe\\t2      8x12        420 B  train/größe\\t2/00030.jpg
3 of 43 records. The first: shardfeed.records('{written.path}', 'test')[1]
"""
    )


@pytest.mark.parametrize(
    ("args", "listed", "last"),
    [
        (["split = 'train'"], 20, "40 of 43 records; 20 records listed (--limit 0 lists all). "),
        (["split = 'train'", "--limit", "0"], 40, "40 of 43 records. "),
        (["1", "--limit", "1"], 1, "43 of 43 records; 1 record listed (--limit 0 lists all). "),
        (["1", "--split", "train[5:8]"], 3, "3 of 3 records. "),
        (["0"], 0, "0 of 43 records."),
    ],
)
def test_the_last_line_counts_what_is_not_listed_too(
    written: Written, capsys: pytest.CaptureFixture[str], args: list[str], listed: int, last: str
) -> None:
    *lines, count = said(capsys, written, "--where", *args).splitlines()
    assert len(lines) == listed
    assert count.partition("The first:")[0] == last


def test_what_is_no_number_in_json_is_null() -> None:
    row = {"a": math.nan, "b": [1.5, math.inf], "c": "x", "d": None, "e": 2}
    assert json_line(row) == '{"a": null, "b": [1.5, null], "c": "x", "d": null, "e": 2}'


def test_json_is_an_object_per_hit_with_all_columns(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    every = rows(written, "width = 12")
    assert len(every) == 43
    lines = said(capsys, written, "--where", "width = 12", "--json").splitlines()
    assert list(map(json.loads, lines)) == every
    assert all(line.isprintable() for line in lines)
    limited = said(capsys, written, "--where", "width = 12", "--json", "--limit", "5").splitlines()
    assert limited == lines[:5]
    assert said(capsys, written, "--where", "width = 13", "--json") == ""


@pytest.mark.parametrize(("name", "kind"), [("hits.png", "PNG"), ("hits.JPG", "JPEG")])
def test_the_sheet_shows_the_listed_hits(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    sheet, where, info = tmp_path / name, "number in (2, 7, 21, 39)", shardfeed.info(written.path)
    lines = said(capsys, written, "--where", where, "--limit", "4", "--sheet", str(sheet)).splitlines()
    assert lines[-2:] == [
        f"contact sheet: {sheet}",
        f"5 of 43 records; 4 records listed (--limit 0 lists all). The first: shardfeed.records("
        f"'{written.path}', 'test')[2]",
    ]
    hits = [row for each in find(info, where, list(info.splits.values())) for row in each.rows(1000)]
    drawn = stored_records(info, hits[:4])
    assert sheet.read_bytes() == draw_sheet(drawn, f"4 of 5 records: {where}", info.manifest.image, kind)


def test_without_a_hit_no_sheet_is_drawn(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "hits.png"
    assert said(capsys, written, "--where", "0", "--sheet", str(sheet)) == (
        "contact sheet: none, because there is no record to draw\n0 of 43 records.\n"
    )
    assert not sheet.exists()


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        (["widht > 3"], 2, "--where widht > 3: no column widht; did you mean width? The columns are split, "),
        (["1", "--split", "dev"], 2, "split 'dev' is not in the dataset at "),
        (["1", "--limit", "-1"], 2, "--limit=-1: expected an integer of at least 0."),
        (["1", "--sheet", "hits.gif"], 2, "--sheet hits.gif: a sheet is a PNG or JPEG image. "),
        (["number = 39"], 4, "{out}/train-00001-of-00003.parquet is damaged: it is not there. Restore "),
    ],
    ids=["condition", "split", "limit", "format of the sheet", "damage"],
)
def test_what_cannot_be_is_said_with_the_exit_code(
    written: Written, capsys: pytest.CaptureFixture[str], args: list[str], code: int, why: str
) -> None:
    if code == 4:
        (written.path / "train-00001-of-00003.parquet").unlink()
    assert main(["find", str(written.path), "--where", *args]) == code
    assert capsys.readouterr().err.startswith(f"shardfeed: {why.format(out=written.path)}")


def test_a_reader_that_leaves_ends_the_search_quietly(tmp_path: Path) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 400}, image_format="raw", shards=2, block_records=100).path
    (out / "train-00001-of-00002.parquet").unlink()  # a search that went on would fail
    find = command("find", out, "--where", "1", "--json")
    with subprocess.Popen(find, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")
