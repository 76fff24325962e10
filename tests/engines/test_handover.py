"""A build is interrupted while it hands its job over to an engine, or leaves right after that."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.engines.front_door import SECONDS, front_door
from tests.engines.launcher import launched
from tests.kit import builds


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            (),
            "stopped while the job was handed over to {}: it may have been taken, and then it goes on. Rerun the same command "
            "to join it.",
        ),
        (("--environment_type", "LOOPBACK"), "stopped; rerun the same command to carry on."),
    ],
    ids=["a job that may go on", "its workers end with the launcher"],
)
def test_ctrl_c_while_the_job_is_handed_over_says_what_becomes_of_it(
    flags: tuple[str, ...], said: str, photos: Path, tmp_path: Path
) -> None:
    with front_door() as door:
        door.answer.clear()
        with launched(builds.build_args(photos, tmp_path / "out", *door.flags, *flags), tmp_path) as launcher:
            assert door.asked.wait(SECONDS), "nobody asked for a job"
            launcher.send_signal(signal.SIGINT)
            ended = launcher.ended()
    assert (ended.code, ended.out, ended.err) == (4, "", f"\nshardfeed: {said.format(door.address)}\n")
    assert not [*tmp_path.glob("beam-pipeline-temp*")]


def test_a_job_that_shall_not_be_waited_for_is_reported_as_submitted(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with front_door() as door:
        args = builds.build_args(photos, out, *door.flags, "--no_wait_until_finish")
        text, as_json = builds.run(*args), builds.run(*args, "--json")
        assert not door.cancelled.is_set()
    assert [(ended.code, ended.err) for ended in (text, as_json)] == [(0, "")] * 2
    assert text.out == (
        f"Submitted, not waited for: job job\nThe dataset is there when {out}/manifest.json is; to see whether it is, "
        "rerun the same command.\n"
    )
    assert json.loads(as_json.out) == {"status": "submitted", "output": str(out), "job_id": "job", "link": None}
