"""Which jobs end with the launcher, and which go on without it: only for those is there anything to ask on Ctrl-C."""

from __future__ import annotations

import pytest

from pipeline.config import BuildConfig
from pipeline.detaching import needs_us, waits_for_end
from shardfeed.errors import UsageError

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
