"""Which workers have helpers, and that all copies of a step in one worker share those of its build."""

from __future__ import annotations

import os
import socket
import time
import weakref
from concurrent.futures import wait
from pathlib import Path

import pytest

from pipeline import helpers, worker_helpers
from pipeline.config import BuildConfig
from pipeline.processes import descendants
from pipeline.worker_helpers import WorkerHelpers, helpers_of_workers
from shardfeed.storage.base import Stat
from transforms.elements import ImageRef, Plan, pack_ref
from transforms.images.options import ImageOptions
from transforms.options import BuildOptions

MULTI = ("--direct_running_mode", "multi_processing")
SERVICE = ("--job_endpoint", "localhost:2")
EXTERNAL = (*SERVICE, "--environment_type", "EXTERNAL", "--environment_config", "localhost:1")


def config_of(folder: Path, *beam_args: str, runner: str | None = None) -> BuildConfig:
    options = BuildOptions(image=ImageOptions(height=8, width=8))
    return BuildConfig(
        (str(folder / "in"),), str(folder / "out"), options, threads=3, runner=runner, beam_args=beam_args
    )


@pytest.mark.parametrize(
    ("runner", "beam_args", "have"),
    [
        (None, (), False),
        ("FnApiRunner", MULTI, False),
        ("PrismRunner", (), False),
        ("PrismRunner", EXTERNAL, True),
        ("PortableRunner", EXTERNAL, True),
        ("PortableRunner", (*SERVICE, "--environment_type", "LOOPBACK"), False),
        ("FlinkRunner", ("--environment_type", "DOCKER"), True),
        ("DataflowRunner", ("--project=p", "--region=r", "--temp_location=gs://b/t"), False),
    ],
)
def test_workers_have_helpers_where_an_engine_starts_one_a_machine(
    runner: str | None, beam_args: tuple[str, ...], have: bool, tmp_path: Path
) -> None:
    assert (helpers_of_workers(config_of(tmp_path, *beam_args, runner=runner)) is not None) is have


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    """That of this test's machine, which has three cores."""
    name = f"test of worker helpers {os.getpid()}"
    monkeypatch.setattr(worker_helpers, "NAME", name)
    monkeypatch.setattr(helpers, "cores", lambda: 3)
    return name


def plan_of(fingerprint: str) -> Plan:
    return Plan(fingerprint, classes=("cat",), versions={}, candidates=2, splits={})


@pytest.fixture
def workers(name: str, tmp_path: Path) -> WorkerHelpers:
    return WorkerHelpers(config_of(tmp_path, *EXTERNAL, runner="PortableRunner"))


def test_copies_of_a_step_share_helpers_that_end_with_the_last_of_them(workers: WorkerHelpers) -> None:
    before = set(descendants(os.getpid()))
    first = workers.join(plan_of("a"))
    assert first is not None and (first.count, first.threads) == (2, 2)
    started = set(descendants(os.getpid())) - before
    assert len(started) == 2
    assert workers.join(plan_of("a")) is first
    workers.leave()
    assert started <= set(descendants(os.getpid()))
    workers.leave()
    assert started.isdisjoint(descendants(os.getpid()))


def test_another_build_in_the_same_worker_has_none_until_the_first_has_ended(
    workers: WorkerHelpers, tmp_path: Path
) -> None:
    other = WorkerHelpers(config_of(tmp_path / "other", *EXTERNAL, runner="PortableRunner"))
    assert workers.join(plan_of("a")) is not None
    assert workers.join(plan_of("b")) is None  # another listing
    assert other.join(plan_of("a")) is None
    workers.leave()
    assert other.join(plan_of("a")) is not None
    other.leave()


def is_taken(name: str) -> bool:
    """Whether a worker of this machine has helpers."""
    with socket.socket(socket.AF_UNIX) as another:
        try:
            another.bind(f"\0{name} {os.getuid()}")
        except OSError:
            return True
        return False


def test_a_worker_of_one_thread_leaves_the_machine_to_others(
    workers: WorkerHelpers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helpers, "cores", lambda: 1)
    assert (workers.join(plan_of("a")), is_taken(name)) == (None, False)
    monkeypatch.setattr(helpers, "cores", lambda: 2)
    assert (workers.join(plan_of("a")) is None, is_taken(name)) == (False, True)
    workers.leave()
    assert not is_taken(name)


def test_helpers_that_cannot_begin_are_ended_and_leave_the_machine_to_others(
    workers: WorkerHelpers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_helpers: helpers.Helpers) -> None:
        raise RuntimeError("can't start new thread")

    before = set(descendants(os.getpid()))
    monkeypatch.setattr(helpers.Helpers, "begin", fail)
    with pytest.raises(RuntimeError):
        workers.join(plan_of("a"))
    assert (set(descendants(os.getpid())) - before, is_taken(name)) == (set(), False)


def test_a_result_that_was_handed_over_is_not_kept(workers: WorkerHelpers, tmp_path: Path) -> None:
    """A worker may make hundreds of thousands of parts."""
    (tmp_path / "in").mkdir()
    plan = plan_of("a")
    ours = workers.join(plan)
    assert ours is not None
    made = ours.submit(plan, "train", 0, [pack_ref(ImageRef(0, b"cat/1.jpg", Stat(1, 0)))])
    assert made is not None
    wait([made], 60)
    assert made.done()  # it could not be made: there is no such image
    kept = weakref.ref(made)
    del made
    deadline = time.monotonic() + 60
    while kept() is not None and time.monotonic() < deadline:  # who set the result lets go of it a moment later
        time.sleep(0.01)
    assert kept() is None
    workers.leave()


def test_a_second_worker_of_a_machine_has_none(workers: WorkerHelpers, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(f"\0{name} {os.getuid()}")
        assert workers.join(plan_of("a")) is None
    assert workers.join(plan_of("a")) is not None
    workers.leave()
