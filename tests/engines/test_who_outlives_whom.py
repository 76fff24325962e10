"""Which jobs end with the launcher, and which go on without it: only for those is there anything to ask on Ctrl-C."""

from __future__ import annotations

import pytest

from pipeline.config import BuildConfig
from pipeline.waiting import needs_us

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
