"""Ctrl-C and SIGTERM, sent to real processes in the middle of encoding."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardfeed as reader
from pipeline.interrupt import children, descendants, end_children, end_with_builds
from tests.pipeline.photos import command, environment, said, shardfeed, write_photos
from tests.promises import builds

GATED = Path(__file__).with_name("gated.py")
STOPPING = "stopping after the images in hand (again to stop at once) ..."


@pytest.fixture
def build(tmp_path: Path) -> tuple[str, ...]:
    """Arguments of a build of 120 images in 32 parts."""
    write_photos(tmp_path / "in", cat=60, dog=60)
    return (
        "build",
        "--input",
        f"{tmp_path}/in",
        "--output",
        f"{tmp_path}/out",
        "--image_size",
        "16",
        "--num_shards",
        "2",
    )


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


def _read_until(child: subprocess.Popen[str], line: str) -> None:
    assert child.stderr is not None
    assert any(each == line + "\n" for each in child.stderr)


def _stop(child: subprocess.Popen[str], number: int) -> None:
    """Sends a signal and reads that it was taken."""
    child.send_signal(number)
    _read_until(child, STOPPING)


@pytest.mark.parametrize("driver", builds.DRIVERS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_stops_the_build_and_the_same_command_completes_it(
    tmp_path: Path, build: tuple[str, ...], driver: str, number: signal.Signals
) -> None:
    with _at_the_gate((*build, *builds.DRIVERS[driver])) as child:
        _stop(child, number)
        out, err = child.communicate("open\n", timeout=60)

    assert (child.returncode, out) == (4, "")
    assert said(err) == (
        f"shardfeed: stopped. What is finished, if anything, is kept under {tmp_path}/out/_parts; rerun the same command to "
        "carry on.\n"
    )
    assert not (tmp_path / "out" / "manifest.json").exists()

    again = shardfeed(*build)
    assert (again.returncode, again.stderr) == (0, "")
    assert reader.verify(tmp_path / "out", deep=True).ok
    assert reader.info(tmp_path / "out").splits["train"].num_records == 120
    assert not (tmp_path / "out" / "_parts").exists()


def test_workers_in_threads_are_stopped_without_a_word_more(tmp_path: Path, build: tuple[str, ...]) -> None:
    workers = ("--runner", "FnApiRunner", "--direct_running_mode", "multi_threading", "--direct_num_workers", "2")
    with _at_the_gate((*build, *workers)) as child:
        _stop(child, signal.SIGTERM)
        out, err = child.communicate("open\n", timeout=60)

    assert (child.returncode, out) == (4, "")
    assert said(err) == (
        f"shardfeed: stopped. What is finished, if anything, is kept under {tmp_path}/out/_parts; rerun the same command to "
        "carry on.\n"
    )


def test_a_second_signal_leaves_at_once(tmp_path: Path, build: tuple[str, ...]) -> None:
    with _at_the_gate(build) as child:
        _stop(child, signal.SIGINT)
        child.send_signal(signal.SIGINT)  # and the gate stays closed
        assert child.wait(60) == 4
        assert child.stderr is not None
        assert said(child.stderr.read()) == "\nshardfeed: stopped; rerun the same command to carry on.\n"

    assert shardfeed(*build).returncode == 0
    assert reader.verify(tmp_path / "out", deep=True).ok


def test_without_a_signal_the_gated_build_completes(tmp_path: Path, build: tuple[str, ...]) -> None:
    with _at_the_gate(build) as child:
        out, err = child.communicate("open\n", timeout=60)

    assert (child.returncode, said(err)) == (0, "")
    assert out.startswith("Built: ")


def test_a_signal_before_the_run_ends_with_our_message_too(tmp_path: Path, build: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "classes")  # reading it blocks: the build is certainly reading its arguments
    child = subprocess.Popen(
        command(*build, "--class_list", tmp_path / "classes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    with open(tmp_path / "classes", "w"):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)

    assert (child.returncode, out, err) == (
        4, "", "shardfeed: stopped before build was complete; rerun the same command.\n"
    )  # fmt: skip


def test_a_child_is_found_while_threads_end() -> None:
    """As those do that spoke to a worker that was killed, while the other workers are ended."""
    end, started = threading.Event(), list[subprocess.Popen[str]]()
    ending = [
        threading.Thread(target=lambda i=i: (end.wait(60), time.sleep(i / 1000)), daemon=True) for i in range(200)
    ]

    # The kernel notes a child with the thread that started it, or, once that has ended, with another.
    def start() -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True))
        ending[100].join()

    starting = threading.Thread(target=start, daemon=True)
    for thread in (*ending, starting):
        thread.start()
    while starting.is_alive() and not started:
        time.sleep(0.01)
    end.set()
    looks = []
    while ending[-1].is_alive():
        looks.append(started[0].pid in children())
    started[0].communicate("\n", timeout=30)
    assert looks and all(looks)


# Prints its number and starts the next of the names that it is given; the last waits for a line.
CHAIN = """
import ctypes, os, subprocess, sys
code, name, *names = sys.argv[1:]
ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
print(os.getpid(), flush=True)
subprocess.run([sys.executable, "-c", code, code, *names]) if names else input()
"""


def test_descendants_come_the_youngest_first_whatever_they_call_themselves() -> None:
    names = ("x) Z 1 (", "tmux: server", ") S 0 0", "last")
    with subprocess.Popen(
        [sys.executable, "-c", CHAIN, CHAIN, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        pids = [int(first.stdout.readline()) for _ in names]
        below = [pid for pid in descendants(os.getpid()) if pid in pids], descendants(pids[1]), descendants(pids[-1])
        called = [Path(f"/proc/{pid}/comm").read_text() for pid in pids]
        first.communicate("\n", timeout=30)
    assert pids[0] == first.pid
    assert called == [name + "\n" for name in names]
    assert below == (pids[::-1], pids[:1:-1], [])


def test_only_processes_of_the_run_are_ended_and_none_for_its_name() -> None:
    waiting = [sys.executable, "-c", "input()"]
    end_with_builds("a-mark")
    earlier = subprocess.Popen([*waiting, "a-mark"], stdin=subprocess.PIPE)
    before = children()
    worker = subprocess.Popen([*waiting, "a-mark"], stdin=subprocess.PIPE)
    names = ("gs://sunbeam-photos/", "/opt/prism-2.77.0", "pipeline.helper_process", "a-mark-too")
    users = [subprocess.Popen([*waiting, name], stdin=subprocess.PIPE) for name in names]

    end_children(but=before)
    assert worker.poll() == -signal.SIGKILL  # at once: Beam looks, and waits a second for one that is not gone
    assert [other.poll() for other in (earlier, *users)] == [None] * 5
    for other in (earlier, *users):
        other.communicate(b"\n", timeout=30)
        assert other.returncode == 0
