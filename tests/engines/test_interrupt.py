"""Ctrl-C while a job runs elsewhere: the user says whether it goes on; a rerun leads back to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.engines.conftest import StuckBuild
from tests.engines.front_door import front_door
from tests.engines.launcher import launched, read_until, tell_when_waiting, terminal
from tests.kit import builds, disk

LEFT = (
    "shardfeed: no longer waiting; the job goes on. To wait for it again, rerun the same command: it joins, and nothing "
    "that is finished is done twice."
)
CANCELLED = (
    "shardfeed: the job was cancelled. What is finished is kept under {}/_parts; rerun the same command to carry on."
)
QUESTION = "The job goes on without this program. Cancel it? [y/N] "


def test_without_a_terminal_the_job_goes_on_and_the_same_command_joins_it(
    stuck_build: StuckBuild, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build() as stuck:
        stuck.launcher.send_signal(signal.SIGINT)
        ended = stuck.launcher.ended()
        assert (ended.code, ended.out, ended.err) == (4, "", f"\n{LEFT}\n")
        assert "manifest.json" not in disk.files(tmp_path / "out")

        stuck.open_gate()
        again = builds.run(*stuck.args)
        assert (again.code, again.err) == (0, "")
        stuck.engine.wait_until_job_ends()
    assert disk.digests(tmp_path / "out") == reference


def test_cancelled_by_the_flag_the_job_publishes_nothing_and_the_same_command_carries_on(
    stuck_build: StuckBuild, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build("--on_interrupt", "cancel") as stuck:
        stuck.launcher.send_signal(signal.SIGTERM)
        ended = stuck.launcher.ended()
        assert (ended.code, ended.out, ended.err) == (4, "", f"\n{CANCELLED.format(tmp_path / 'out')}\n")

        stuck.open_gate()  # what the worker has in hand may be finished, and harms nobody
        stuck.engine.wait_until_job_ends()
        assert "manifest.json" not in disk.files(tmp_path / "out")
    again = builds.run(*stuck.args)
    assert (again.code, again.err) == (0, "")
    assert disk.digests(tmp_path / "out") == reference


NO_LONGER = "shardfeed: no longer waiting; the job goes on unless it was cancelled."


@pytest.mark.parametrize(
    ("number", "flags", "answer", "said"),
    [
        (signal.SIGINT, (), b"y\n", CANCELLED),
        (signal.SIGINT, (), b"\n", LEFT),
        (signal.SIGINT, (), signal.SIGINT, NO_LONGER),
        (signal.SIGINT, ("--on_interrupt", "detach"), None, LEFT),
        (signal.SIGTERM, (), None, LEFT),
    ],
    ids=["yes", "just Enter", "Ctrl-C again", "answered beforehand", "a program's signal"],
)
def test_on_a_terminal_a_user_who_types_ctrl_c_and_has_not_answered_yet_is_asked_once(
    number: signal.Signals,
    flags: tuple[str, ...],
    answer: bytes | signal.Signals | None,
    said: str,
    photos: Path,
    tmp_path: Path,
) -> None:
    out, shown = tmp_path / "out", ""
    with terminal() as (ours, use_terminal), front_door() as door:
        args = builds.build_args(photos, out, *door.flags, *flags)
        with launched(args, tmp_path, hooks=(use_terminal,), until=tell_when_waiting) as launcher:
            launcher.send_signal(number)
            if answer is not None:
                shown += read_until(ours, QUESTION)
            if isinstance(answer, signal.Signals):
                launcher.send_signal(answer)
            elif answer is not None:
                os.write(ours, answer)
            shown += read_until(ours, said.format(out))
            assert launcher.ended().code == 4
        assert shown.count(QUESTION) == (answer is not None)
        assert door.cancelled.is_set() == (said == CANCELLED)
