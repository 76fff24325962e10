"""Does on this machine what Dataflow does with a job: installs what was staged and runs the graph.

The graph's Docker environments become one external worker. It is a process that has Beam with its
dependencies and the staged source package (``tests.kit.worker_python``). It starts in ``/`` with
none of this process's variables. The engine behind it is Beam's in-process one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from shardfeed.pipeline.engines.counters import counted
from shardfeed.storage.gcs_clients import google_client
from tests.dataflow.service import End, Job
from tests.kit.worker_python import make_worker_python

POOL = """
import sys
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
address, server = BeamFnExternalWorkerPoolServicer.start(use_process=False)
print(address, flush=True)
sys.stdin.read()
"""


def staged(job: Job) -> dict[str, bytes]:
    """Files that the job names: the packages for the workers, and the graph (``pipeline.pb``)."""
    (pool,) = job["environment"]["workerPools"]
    urls = [package["location"] for package in pool.get("packages", [])]
    urls.append(job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"])
    return {url.rpartition("/")[2]: _fetch(url) for url in urls}


def graph(job: Job) -> beam_runner_api_pb2.Pipeline:
    """The staged graph."""
    proto: beam_runner_api_pb2.Pipeline = beam_runner_api_pb2.Pipeline.FromString(staged(job)["pipeline.pb"])
    return proto


def _fetch(url: str) -> bytes:
    for scheme in ("gs://", "storage.googleapis.com/"):
        url = url.removeprefix(scheme)
    bucket, _, name = url.partition("/")
    data: bytes = google_client().bucket(bucket).blob(name).download_as_bytes()
    return data


class Worker:
    """A worker machine below ``folder``; Beam is there, ours is not until ``install``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = make_worker_python(folder / "environment")
        self.python, self.site = self._made.python, self._made.site

    def install(self, name: str, archive: bytes) -> None:
        path = self._folder / name
        path.write_bytes(archive)
        self._made.install(path)

    @contextlib.contextmanager
    def running(self, gcs: str) -> Iterator[str]:
        """Address of a pool that starts workers here; it knows only the bucket's server."""
        env = {"PATH": os.defpath, "HOME": str(self._folder), "STORAGE_EMULATOR_HOST": gcs}
        with (self._folder / "worker.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self.python), "-c", POOL],
                cwd="/",
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()
            process.communicate()


def execute(job: Job, worker: Worker, gcs: str, counters: dict[str, int] | None = None) -> End:
    """Runs the staged graph on the worker. A failure's text is what the service would show.

    ``counters`` receives the job's counters.
    """
    proto = graph(job)
    with worker.running(gcs) as address:
        external = beam_runner_api_pb2.ExternalPayload(endpoint=endpoints_pb2.ApiServiceDescriptor(url=address))
        for environment in proto.components.environments.values():
            environment.urn = common_urns.environments.EXTERNAL.urn
            environment.payload = external.SerializeToString()
            del environment.dependencies[:]
        try:
            result: Any = FnApiRunner().run_via_runner_api(proto, PipelineOptions([]))
            result.wait_until_finish()
            if counters is not None:
                counters.update(counted(result))
        except Exception as error:
            return End("JOB_STATE_FAILED", ["Workflow failed.", str(error)])
    return End()
