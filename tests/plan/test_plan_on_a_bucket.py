"""``plan`` of buckets only reads, and the build makes as many requests as it forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.plan.command import plan_build
from shardfeed.pipeline.run_build import run_build
from shardfeed.storage import retry
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from tests.kit.commands import photo
from tests.kit.servers.strict_gcs import StrictGCS

OPTIONS = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=2)
CONFIG = BuildConfig(inputs=("gs://photos/in",), output="gs://data/out", options=OPTIONS, threads=2)
IMAGES = 40


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictGCS]:
    """Forty photos below ``gs://photos/in``, and an empty bucket for the output."""
    with StrictGCS() as strict:
        for i in range(IMAGES):
            strict.objects.put("photos", f"in/{'cat' if i % 2 else 'dog'}/{i}.jpg", photo(i))
        strict.objects.buckets["data"] = {}
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", strict.url)
        monkeypatch.setattr(retry, "sleep", lambda _seconds: None)
        yield strict


def test_a_plan_only_lists_and_reads(server: StrictGCS) -> None:
    forecast = plan_build(CONFIG)

    assert set(server.counts()) == {"list", "get", "stat"}
    assert server.counts()["get"] == IMAGES + 1  # the first one twice: once before the clock starts
    assert server.objects.buckets["data"] == {}
    assert (forecast.totals.candidates, len(forecast.sample.trials)) == (IMAGES, IMAGES)


def test_requests_are_foretold(server: StrictGCS) -> None:
    # Without duplicates: how many parts hold some is not foretold.
    config = replace(CONFIG, options=replace(OPTIONS, duplicates=False))
    forecast = plan_build(config)
    before = server.counts()
    run_build(config)
    made = server.counts() - before

    assert made["get"] + made["stat"] == pytest.approx(forecast.cloud.reads, rel=0.05)
    assert made["list"] + made["upload"] + made["compose"] == pytest.approx(forecast.cloud.writes, rel=0.05)


def test_threads_that_are_too_few_for_dataflow_are_noted(server: StrictGCS) -> None:
    cloud = ("--project=my-project", "--region=us-central1", "--temp_location=gs://data/tmp")
    there = replace(CONFIG, engine=Engine("DataflowRunner", cloud))
    few, many, elsewhere = plan_build(there), plan_build(replace(there, threads=64)), plan_build(CONFIG)
    (note,) = few.notes
    assert note.text.startswith("on Dataflow 2 threads per vCPU wait 25.0 ms for an image on which it works ")
    assert (many.notes, elsewhere.notes) == ([], [])
    assert few.cloud.vcpu_hours > many.cloud.vcpu_hours
