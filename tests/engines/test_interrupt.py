"""Ctrl-C while a job runs elsewhere: the user says whether it goes on; a rerun leads back to it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.conftest import StuckBuild
from tests.kit import builds, disk

LEFT = (
    "shardfeed: no longer waiting; the job goes on. To wait for it again, rerun the same command: it joins, and nothing "
    "that is finished is done twice."
)
CANCELLED = (
    "shardfeed: the job was cancelled. What is finished is kept under {}/_parts; rerun the same command to carry on."
)
QUESTION = "The job goes on without this program. Cancel it? [y/N] "


def completes(args: tuple[str, ...], out: Path, reference: dict[str, str]) -> None:
    again = builds.run(*args)
    assert (again.code, again.err) == (0, "")
    assert disk.digests(out) == reference


def test_without_a_terminal_the_job_goes_on_and_the_same_command_joins_it(
    stuck_build: StuckBuild, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build() as stuck:
        stuck.launcher.send_signal(signal.SIGINT)
        out, err = stuck.launcher.communicate(timeout=60)
        assert (stuck.launcher.returncode, out, err) == (4, "", f"\n{LEFT}\n")
        assert "manifest.json" not in disk.files(tmp_path / "out")

        stuck.open_gate()
        completes(stuck.args, tmp_path / "out", reference)


def test_a_job_that_was_left_publishes_by_itself(
    stuck_build: StuckBuild, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build() as stuck:
        stuck.launcher.send_signal(signal.SIGTERM)
        assert stuck.launcher.communicate(timeout=60) == ("", f"\n{LEFT}\n")

        stuck.open_gate()
        stuck.engine.wait_until_job_ends()
    assert disk.digests(tmp_path / "out") == reference


def test_cancelled_by_the_flag_the_job_publishes_nothing_and_the_same_command_carries_on(
    stuck_build: StuckBuild, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build("--on_interrupt", "cancel") as stuck:
        stuck.launcher.send_signal(signal.SIGTERM)
        out, err = stuck.launcher.communicate(timeout=60)
        assert (stuck.launcher.returncode, out, err) == (4, "", f"\n{CANCELLED.format(tmp_path / 'out')}\n")

        stuck.open_gate()  # what the worker has in hand may be finished, and harms nobody
        stuck.engine.wait_until_job_ends()
        assert "manifest.json" not in disk.files(tmp_path / "out")
    completes(stuck.args, tmp_path / "out", reference)


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A user's end and a program's end of a terminal."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(end: int, text: str) -> str:
    """What the terminal shows, up to and with ``text``."""
    shown = ""
    while text not in shown:
        assert select.select([end], [], [], 60)[0], shown
        shown += os.read(end, 4096).decode()
    return shown


@pytest.mark.parametrize("answer", ["y", ""], ids=["yes", "just Enter"])
def test_on_a_terminal_the_user_is_asked_once(answer: str, stuck_build: StuckBuild, tmp_path: Path) -> None:
    said = CANCELLED.format(tmp_path / "out") if answer else LEFT
    with terminal() as (ours, theirs), stuck_build(terminal=theirs) as stuck:
        stuck.launcher.send_signal(signal.SIGINT)
        shown = read_until(ours, QUESTION)
        os.write(ours, f"{answer}\n".encode())
        shown += read_until(ours, said)
        assert (stuck.launcher.wait(60), shown.count(QUESTION)) == (4, 1)


def test_on_a_terminal_a_user_who_has_answered_beforehand_is_not_asked(stuck_build: StuckBuild) -> None:
    with terminal() as (ours, theirs), stuck_build("--on_interrupt", "detach", terminal=theirs) as stuck:
        stuck.launcher.send_signal(signal.SIGINT)
        shown = read_until(ours, LEFT)
        assert (stuck.launcher.wait(60), shown.count(QUESTION)) == (4, 0)


def test_a_second_ctrl_c_at_the_question_leaves_the_job(stuck_build: StuckBuild) -> None:
    with terminal() as (ours, theirs), stuck_build(terminal=theirs) as stuck:
        stuck.launcher.send_signal(signal.SIGINT)
        read_until(ours, QUESTION)
        stuck.launcher.send_signal(signal.SIGINT)
        read_until(ours, "shardfeed: no longer waiting; the job goes on unless it was cancelled.")
        assert stuck.launcher.wait(60) == 4
