"""Ctrl-C and SIGTERM in the middle of encoding, sent to real processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardfeed as reader
from tests.kit import builds
from tests.kit.commands import environment, said, write_photos

GATED = Path(__file__).with_name("gated.py")
THREADS = ("--runner", "FnApiRunner", "--direct_running_mode", "multi_threading", "--direct_num_workers", "2")
STOPPING = "stopping after the images in hand (again to stop at once) ..."


@pytest.fixture
def build(tmp_path: Path) -> tuple[str, ...]:
    """Arguments of a build of 40 images."""
    return builds.build_args(write_photos(tmp_path / "in", cat=20, dog=20), tmp_path / "out")


@contextlib.contextmanager
def _at_the_gate(build: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    """A build that has encoded five images and waits for a line before the next."""
    child = subprocess.Popen(
        [sys.executable, str(GATED), *build],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "at the gate\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def _stop(child: subprocess.Popen[str], number: int) -> None:
    """Sends a signal and reads that it was taken."""
    child.send_signal(number)
    assert child.stderr is not None
    assert STOPPING + "\n" in child.stderr


def _stopped(tmp_path: Path) -> str:
    return (
        f"shardfeed: stopped. What is finished, if anything, is kept under {tmp_path}/out/_parts; rerun the same command to "
        "carry on.\n"
    )


@pytest.mark.parametrize(
    ("flags", "number"),
    [((), signal.SIGINT), (THREADS, signal.SIGTERM)],
    ids=["SIGINT, local", "SIGTERM, workers in threads"],
)
def test_a_signal_stops_the_build_without_a_word_more_and_the_same_command_completes_it(
    tmp_path: Path, build: tuple[str, ...], flags: tuple[str, ...], number: signal.Signals
) -> None:
    with _at_the_gate((*build, *flags)) as child:
        _stop(child, number)
        out, err = child.communicate("open\n", timeout=60)

    assert (child.returncode, out, said(err)) == (4, "", _stopped(tmp_path))
    assert not (tmp_path / "out" / "manifest.json").exists()
    _completes(tmp_path, build)


def _completes(tmp_path: Path, build: tuple[str, ...]) -> None:
    again = builds.run(*build)
    assert (again.code, again.err) == (0, "")
    assert reader.verify(tmp_path / "out", deep=True).ok
    assert reader.info(tmp_path / "out").splits["train"].num_records == 40
    assert not (tmp_path / "out" / "_parts").exists()


def test_a_second_signal_leaves_at_once(tmp_path: Path, build: tuple[str, ...]) -> None:
    with _at_the_gate(build) as child:
        _stop(child, signal.SIGINT)
        child.send_signal(signal.SIGINT)  # and the gate stays closed
        assert child.wait(60) == 4
        assert child.stderr is not None
        assert said(child.stderr.read()) == "\nshardfeed: stopped; rerun the same command to carry on.\n"

    _completes(tmp_path, build)
