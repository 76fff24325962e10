"""A worker executes a submitted job with Beam and the staged source package only."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.dataflow.cloud import Cloud, Ended
from tests.dataflow.execution import Worker, execute, staged
from tests.dataflow.script import run
from tests.dataflow.service import End, Job

FLAGS = ("--splits", "train=0.7,validation=0.3", "--num_shards", "2", "--max_rejected", "1")
IMAGE = ("--sdk_container_image", "an/image:1")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Worker:
    return Worker(tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="module")
def executed(cloud: Cloud, worker: Worker) -> Ended:
    """A build on Dataflow into ``gs://data/out/``, executed by a worker of its own."""

    def with_package(job: Job) -> End:
        worker.install("workflow.tar.gz", staged(job)["workflow.tar.gz"])
        return execute(job, worker, cloud.gcs)

    cloud.service.execute = with_package
    return cloud.submit(*cloud.setup, *FLAGS)


def test_a_worker_with_the_staged_package_alone_makes_the_dataset(executed: Ended) -> None:
    assert executed.code == 0, executed.err
    assert executed.out.startswith("Built: gs://data/out\n  images     13 listed = 12 written + 1 rejected (EMPTY 1)")
    assert "img/s" not in executed.out  # the service told no counters


def test_the_dataset_is_the_local_build_byte_for_byte(cloud: Cloud, executed: Ended) -> None:
    local = cloud.build(*FLAGS, out="gs://data/local")
    assert (executed.code, local.code) == (0, 0), local.err
    assert cloud.digests("out/") == cloud.digests("local/")


def test_run_dataflow_sh_plans_submits_and_follows_a_job_to_the_same_dataset(
    cloud: Cloud, worker: Worker, executed: Ended, tmp_path: Path
) -> None:
    cloud.service.execute = lambda job: execute(job, worker, cloud.gcs)
    ran = run(
        tmp_path,
        *("gs://photos/in", "gs://data/script", "--image_size", "16", *FLAGS),
        *("--dataflow_endpoint", cloud.service.url),
        IMAGE="an/image:1",
        PYTHON=sys.executable,
        TEMP="gs://scratch/tmp",
        env={name: os.environ[name] for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS")},
    )
    assert (executed.code, ran.code) == (0, 0), ran.err
    assert ran.out.startswith("Built: gs://data/script\n")
    assert ran.err.startswith("Plan: gs://photos/in -> gs://data/script (nothing was written)\n")
    assert f"job {cloud.service.jobs[-1]['id']}: done\n" in ran.err
    assert cloud.digests("out/") == cloud.digests("script/")


def test_a_job_says_why_it_published_nothing_and_the_next_one_keeps_the_parts_that_it_finished(
    cloud: Cloud, worker: Worker, executed: Ended
) -> None:
    """The workers leave the reason in the output, and the service has their counters."""
    assert executed.code == 0, executed.err  # the first one gave the worker the package
    cloud.service.execute = lambda job: execute(job, worker, cloud.gcs, cloud.service.counters)
    stopped = cloud.submit(*IMAGE, *FLAGS, "--max_rejected", "0", out="gs://data/kept")
    ended = cloud.submit(*IMAGE, *FLAGS, out="gs://data/kept")
    cloud.service.counters.clear()
    assert (stopped.code, stopped.out, ended.code) == (3, "", 0), stopped.err + ended.err
    assert (
        "\nshardfeed: 1 of 13 images cannot be used (EMPTY 1); --max_rejected allows 0" in stopped.err
        and "the job ended" not in stopped.err
    )
    assert re.search(r"^  time       [\d.]+ s, 13 images kept from an earlier run$", ended.out, re.MULTILINE), ended.out
