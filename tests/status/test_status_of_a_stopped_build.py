"""``shardfeed status`` of builds that rejects stopped, and of those that something else did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardfeed.errors import IncompleteError, TooManyRejectsError
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.run_build import run_build
from shardfeed.pipeline.status.command import build_status
from shardfeed.transforms.elements import Counts, Plan, Totals, Verdict
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.publish import composing
from shardfeed.transforms.publish.verdict import judge
from tests.kit.commands import write_photos
from tests.status.outputs import OPTIONS

STOPPED = "images that cannot be used stopped it; nothing was published"


def test_too_many_rejects_name_the_file_that_lists_them_until_a_rerun_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=8), tmp_path / "out"
    for number in range(2):
        (photos / "cat" / f"bad{number}.jpg").write_bytes(b"<html>")
    config = BuildConfig(inputs=(str(photos),), output=str(out), options=OPTIONS, max_rejected=Limit(count=1))
    for _ in range(2):  # a rerun with the same limit changes nothing
        with pytest.raises(TooManyRejectsError, match="cannot be used"):
            run_build(config)

    status = build_status(str(out))
    (rejects,) = out.rglob("rejects-*.jsonl")
    assert (status.state, status.code, status.rejects) == ("rejected", 3, [str(rejects)])
    lines = status.to_text().splitlines()
    assert lines[:2] == [f"{out}: {STOPPED}", "  images     10 of 10 (100 %), 2 rejected (FORMAT 2)"]
    assert f"  rejects    {rejects}" in lines
    assert lines[-1] == (
        "Next: look at the rejects, then rerun the same `shardfeed build`: it keeps finished work, and says what it takes (a "
        "higher --max_rejected, or repaired images and --discard_incomplete)"
    )

    def stopped(*_: object) -> None:
        raise IncompleteError("before the first shard")

    enough = replace(config, max_rejected=Limit(count=2))
    with monkeypatch.context() as patch:
        patch.setattr(composing, "compose_shard", stopped)
        with pytest.raises(IncompleteError):
            run_build(enough)
    status = build_status(str(out))
    assert (status.state, status.code) == ("publishing", 4)

    run_build(enough)
    assert build_status(str(out)).state == "complete"


def test_near_duplicates_that_were_not_allowed_are_named_with_their_list(tmp_path: Path) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=3), tmp_path / "out"
    (photos / "cat" / "again.jpg").write_bytes(next(photos.rglob("*.jpg")).read_bytes())
    (photos / "cat" / "empty.jpg").touch()  # one reject, which is allowed: its file is published first
    config = BuildConfig(
        inputs=(str(photos),),
        output=str(out),
        options=OPTIONS,
        fail_on_duplicates=True,
        max_rejected=Limit(count=1),
    )
    with pytest.raises(TooManyRejectsError, match="1 pair of near-duplicates"):
        run_build(config)

    status = build_status(str(out))
    (listed,) = out.rglob("duplicates.jsonl")
    assert (status.state, status.code, status.duplicates) == ("duplicates", 3, str(listed))
    lines = status.to_text().splitlines()
    assert lines[0] == f"{out}: near-duplicates stopped it, because of --duplicates fail; nothing was published"
    assert f"  duplicates {listed}" in lines
    assert lines[-1].startswith(
        "Next: look at the list, then rerun the same `shardfeed build` with --duplicates report"
    )

    run_build(replace(config, fail_on_duplicates=False))
    assert build_status(str(out)).state == "complete"


def test_images_that_the_engine_lost_are_no_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=8), tmp_path / "out"
    (photos / "cat" / "bad.jpg").write_bytes(b"<html>")

    def lost(counts: Counts, totals: Totals, plan: Plan, limit: Limit) -> Verdict:
        return judge(replace(counts, key_sums={"train": 0}), totals, plan, limit)

    monkeypatch.setattr("shardfeed.pipeline.local.judge", lost)
    with pytest.raises(IncompleteError, match="the engine loses or doubles elements") as failed:
        run_build(BuildConfig(inputs=(str(photos),), output=str(out), options=OPTIONS))

    status = build_status(str(out))
    assert (status.state, status.code, status.rejects) == ("publishing", IncompleteError.code, [])
    assert "Rejects:" not in str(failed.value)
