"""``run_dataflow.sh`` and the plan that it shows: what of it ends the script before a job."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.dataflow.script import (
    BUILT,
    COMMAND,
    run,
)
from tests.pipeline.photos import write_photos


def test_a_plan_that_fails_ends_it_before_the_job(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON_CODE="2")
    assert (ran.code, [line.split(":")[0] for line in ran.started]) == (2, ["plan"])


def planned(folder: Path, good: int, bad: int, *flags: str, dataset: bool = False) -> str:
    """What `shardfeed plan` says of a folder with images that can be used and some that cannot."""
    photos = write_photos(folder / "photos", cat=good)
    for i in range(bad):
        (photos / "cat" / f"bad{i}.jpg").write_bytes(b"")
    if dataset:
        (folder / "out").mkdir()
        (folder / "out" / "manifest.json").write_text("{}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["plan", "--input", str(photos), "--output", str(folder / "out"), *flags]) == 0
    return out.getvalue().rstrip("\n")


NONE = "none of the images read for train can be used: the build would publish nothing (exit 3)"

TOO_MANY = "about 2 images would be rejected and --max_rejected allows 1: the build would publish nothing (exit 3)"


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "JSON"])
@pytest.mark.parametrize(
    ("good", "flags", "why"),
    [(0, [], NONE), (3, ["--max_rejected=1"], TOO_MANY), (0, ["--max_rejected=1"], f"{NONE}, {TOO_MANY}")],
    ids=["no image can be used", "too many cannot", "both"],
)
def test_a_plan_that_foresees_no_dataset_ends_it_with_the_plans_words(
    tmp_path: Path, json: list[str], good: int, flags: list[str], why: str
) -> None:
    plan = planned(tmp_path, good, 2, *flags, *json)
    ran = run(tmp_path, *COMMAND, *flags, *json, PLANNED=plan)
    said = f"no job was submitted, for the plan says: {why}. It reads a sample; to submit all the same: PLAN=no"
    assert (ran.code, ran.out, ran.err) == (3, "", f"{plan}\nrun_dataflow.sh: {said}\n")
    assert [line.split(":")[0] for line in ran.started] == ["plan"]


@pytest.mark.parametrize(
    ("bad", "dataset"), [(1, False), (2, True)], ids=["rejects that are allowed", "the dataset is there already"]
)
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "JSON"])
def test_a_plan_with_other_notes_ends_nothing(tmp_path: Path, json: list[str], bad: int, dataset: bool) -> None:
    plan = planned(tmp_path, 3, bad, "--max_rejected=1", *json, dataset=dataset)
    ran = run(tmp_path, *COMMAND, *json, PLANNED=plan)
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{plan}\n")


@pytest.mark.parametrize(
    ("json", "name"),
    [
        ([], "the build would publish nothing (exit 3)"),
        (["--json"], 'a", "notes": ["the build would publish nothing (exit 3)"], "'),
    ],
    ids=["text", "JSON"],
)
def test_a_class_that_is_called_like_the_plans_words_ends_nothing(tmp_path: Path, json: list[str], name: str) -> None:
    photos = write_photos(tmp_path / "photos", cat=1)
    (photos / "cat").rename(photos / name)
    plan = planned(tmp_path, 1, 0, *json)
    assert "nothing (exit 3)" in plan
    assert run(tmp_path, *COMMAND, *json, PLANNED=plan).code == 0
