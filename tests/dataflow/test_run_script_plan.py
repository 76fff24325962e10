"""``run_dataflow.sh`` and the plan that it shows: what of it ends the script before a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.cli.main import main
from tests.dataflow.script import BUILT, COMMAND, run
from tests.kit.commands import write_photos


def test_a_plan_that_fails_ends_it_before_the_job(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON_CODE="2")
    assert (ran.code, ran.err, ran.commands) == (2, "", ["plan"])


def test_a_plan_of_an_input_too_large_to_list_here_is_no_plan_and_the_job_is_submitted(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PLANNED="")
    assert (ran.code, ran.out) == (0, f"{BUILT}\n")
    plan, build = ran.started
    assert "--list_at_most" in plan
    assert "--list_at_most" not in build


def planned(capsys: pytest.CaptureFixture[str], *flags: str | Path) -> tuple[str, str]:
    """What ``shardfeed plan`` says, and its exit code."""
    code = main(["plan", *map(str, flags)])
    return capsys.readouterr().out.rstrip("\n"), str(code)


JSON = pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "JSON"])


@JSON
def test_a_plan_that_is_sure_of_no_dataset_ends_it_before_the_job(
    tmp_path: Path, json: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    photos = write_photos(tmp_path / "photos", cat=2)
    for path in photos.rglob("*.jpg"):
        path.write_bytes(b"")
    plan, code = planned(capsys, "--input", photos, "--output", tmp_path / "out", *json)
    assert code == "3"
    ran = run(tmp_path, *COMMAND, *json, PLANNED=plan, PLAN_CODE=code)
    said = "no job was submitted, for it would end with exit code 3, by the plan's notes. To submit it all the same: PLAN=no"
    assert (ran.code, ran.out, ran.err) == (3, "", f"{plan}\nrun_dataflow.sh: {said}\n")
    assert ran.commands == ["plan"]


@JSON
def test_a_plan_with_notes_that_are_not_sure_ends_nothing(
    tmp_path: Path, json: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The dataset is there already: of what it was made, images have become unusable."""
    photos = write_photos(tmp_path / "photos", cat=3)
    (photos / "cat" / "bad.jpg").write_bytes(b"")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    plan, code = planned(capsys, "--input", photos, "--output", tmp_path / "out", *json)
    assert "note" in plan
    ran = run(tmp_path, *COMMAND, *json, PLANNED=plan, PLAN_CODE=code)
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{plan}\n")
