"""Which jobs end with the launcher, and which go on without it: only for those is there anything to ask on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.config import BuildConfig
from pipeline.detaching import needs_us, waits_for_end
from shardfeed.errors import UsageError
from tests.pipeline import gated
from tests.pipeline.photos import environment
from tests.promises import builds

ELSEWHERE = ("--job_endpoint", "host:1")
EXTERNAL = ("--environment_type", "EXTERNAL", "--environment_config", "host:2")


@pytest.mark.parametrize(
    ("runner", "args", "needed"),
    [
        (None, (), True),
        ("DirectRunner", ELSEWHERE, True),
        ("FnApiRunner", ("--direct_running_mode=multi_processing", *ELSEWHERE), True),
        ("PrismRunner", (), True),
        ("PrismRunner", EXTERNAL, True),
        ("PrismRunner", ELSEWHERE, True),
        ("PrismRunner", (*ELSEWHERE, *EXTERNAL), False),
        ("PortableRunner", ELSEWHERE, False),
        ("PortableRunner", ("--job_endpoint=embed", *EXTERNAL), True),
        ("PortableRunner", (*ELSEWHERE, "--environment_type=LOOPBACK"), True),
        ("FlinkRunner", ELSEWHERE, True),
        ("FlinkRunner", (*ELSEWHERE, *EXTERNAL), False),
        ("FlinkRunner", ("--flink_master", "http://host:8081", "--flink_submit_uber_jar"), False),
        ("SparkRunner", ("--spark_submit_uber_jar", "--spark_rest_url", "http://host:6066"), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_job_needs_the_launcher_while_its_engine_or_its_workers_are_of_it(
    runner: str | None, args: tuple[str, ...], needed: bool
) -> None:
    assert needs_us(BuildConfig(inputs=("in",), output="out", runner=runner, beam_args=args)) is needed


def test_a_job_on_dataflow_goes_on() -> None:
    cloud = ("--project=p", "--region=us-central1", "--temp_location=gs://b/t")
    assert (
        needs_us(BuildConfig(inputs=("gs://b/in",), output="gs://b/out", runner="DataflowRunner", beam_args=cloud))
        is False
    )


IN_PROCESS = "without an engine the work is done in this process and its children"
STARTED = "--runner PrismRunner without a --job_endpoint elsewhere starts its engine here"
THREADS = "with LOOPBACK workers are threads of this process"


@pytest.mark.parametrize(
    ("runner", "args", "why"),
    [
        (None, (), IN_PROCESS),
        ("FnApiRunner", ("--direct_running_mode=multi_processing",), IN_PROCESS),
        ("PrismRunner", EXTERNAL, STARTED),
        ("PortableRunner", (*ELSEWHERE, "--environment_type=LOOPBACK"), THREADS),
    ],
    ids=["in process", "worker processes", "Prism", "LOOPBACK"],
)
def test_a_job_that_ends_with_the_launcher_cannot_be_asked_to_go_on(
    runner: str | None, args: tuple[str, ...], why: str
) -> None:
    for flag, asked in (
        ("--on_interrupt detach", {"on_interrupt": "detach"}),
        ("--no_wait_until_finish", {"beam_args": (*args, "--no_wait_until_finish")}),
    ):
        given = {"inputs": ("in",), "output": "out", "runner": runner, "beam_args": args, **asked}
        with pytest.raises(UsageError) as refused:
            BuildConfig(**given)  # type: ignore[arg-type]
        assert str(refused.value) == (
            f"{flag}: {why}, so the build ends with this command and cannot be left running. Leave the option out (a build that "
            "was stopped is carried on by the same command), or use an engine that runs elsewhere (docs/engines.md)."
        )


def test_cancelling_is_what_happens_to_such_a_job_anyway() -> None:
    assert BuildConfig(inputs=("in",), output="out", on_interrupt="cancel").on_interrupt == "cancel"


def test_a_job_elsewhere_may_be_left() -> None:
    args = (*ELSEWHERE, "--no_wait_until_finish")
    config = BuildConfig(inputs=("in",), output="out", runner="PortableRunner", beam_args=args, on_interrupt="detach")
    assert not waits_for_end(config)


def running(program: Path) -> list[int]:
    """Processes of a program, wherever they are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (process / "exe").readlink() == program:
                found.append(int(process.name))
    return found


def left_of(program: Path) -> list[int]:
    """Its processes that run after all; one that was killed may take a moment to be gone."""
    for _ in range(500):
        if not running(program):
            break
        time.sleep(0.01)
    return running(program)


def test_an_engine_by_another_name_does_not_outlive_its_launcher(
    prism_program: Path, photos: Path, tmp_path: Path
) -> None:
    program = Path(shutil.copy(prism_program, tmp_path / "engine-p"))
    assert not any(word in str(program) for word in ("prism", "beam"))
    args = builds.build_args(photos, tmp_path / "out", "--runner", "PrismRunner", "--prism_location", str(program))
    with subprocess.Popen(
        [sys.executable, gated.__file__, *args],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as launcher:  # fmt: skip
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == "at the gate\n"
            (engine,) = running(program)
            os.kill(engine, signal.SIGSTOP)  # else it ends by itself, as soon as it logs to nobody
            launcher.send_signal(signal.SIGTERM)
            assert launcher.wait(60) == 4
            assert left_of(program) == []
        finally:
            for pid in (*running(program), launcher.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
