"""What was submitted, executed: by a worker that has Beam and the staged source package, and nothing else of this checkout."""

from __future__ import annotations

import hashlib

import pytest

from tests.dataflow.cloud import Cloud, Ended
from tests.dataflow.execution import Worker, execute, staged
from tests.dataflow.service import End, Job

FLAGS = ("--splits", "train=0.7,validation=0.3", "--num_shards", "2", "--max_rejected", "1")


def digests(cloud: Cloud, folder: str) -> dict[str, str]:
    """SHA-256 of every file of a dataset but ``run.json``, which alone may differ."""
    files = {name.removeprefix(folder): data for name, data in cloud.objects("data").items() if name.startswith(folder)}
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "run.json"}


@pytest.fixture(scope="module")
def executed(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A build on Dataflow into ``gs://data/out/``, executed by a worker of its own."""
    worker = Worker(tmp_path_factory.mktemp("worker"))

    def with_package(job: Job) -> End:
        worker.install("workflow.tar.gz", staged(job)["workflow.tar.gz"])
        return execute(job, worker, cloud.gcs)

    cloud.service.execute = with_package
    return cloud.submit(*cloud.setup, *FLAGS)


def test_a_worker_with_the_staged_package_alone_makes_the_dataset(executed: Ended) -> None:
    assert executed.code == 0, executed.err
    assert executed.out.startswith("Built: gs://data/out\n  images     13 listed = 12 written + 1 rejected (EMPTY 1)")


def test_the_dataset_is_the_local_build_byte_for_byte(cloud: Cloud, executed: Ended) -> None:
    local = cloud.build(*FLAGS, out="gs://data/local")
    assert (executed.code, local.code) == (0, 0), local.err
    assert digests(cloud, "out/") == digests(cloud, "local/")
