"""A build is interrupted while it hands its job over to an engine, or leaves right after that."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from tests.engines.conftest import FLAGS
from tests.kit import builds, disk
from tests.kit.commands import command, environment, said
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

SECONDS = 60.0
signals = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])


class SlowService(beam_job_api_pb2_grpc.JobServiceServicer):
    """An engine's front door that has been asked to run a job, and has not answered yet."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def DescribePipelineOptions(self, request: Any, context: Any) -> Any:
        return beam_job_api_pb2.DescribePipelineOptionsResponse()

    def Prepare(self, request: Any, context: Any) -> Any:
        return beam_job_api_pb2.PrepareJobResponse(preparation_id="job")

    def Run(self, request: Any, context: Any) -> Any:
        self.asked.set()
        self.answer.wait(SECONDS)
        return beam_job_api_pb2.RunJobResponse(job_id="job")


@contextlib.contextmanager
def slow_service() -> Iterator[tuple[SlowService, str]]:
    """The service and its address."""
    service = SlowService()
    server = grpc.server(ThreadPoolExecutor(4))
    register: Any = beam_job_api_pb2_grpc.add_JobServiceServicer_to_server
    register(service, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield service, f"localhost:{port}"
    finally:
        service.answer.set()
        server.stop(None).wait()


def interrupted(args: tuple[str, ...], number: signal.Signals, temporary: Path) -> tuple[int, str, str, str]:
    """Interrupts a build at its handover: exit code, output, errors, service's address."""
    with slow_service() as (service, address):
        engine = ("--runner", "PortableRunner", "--job_endpoint", address)
        program = command(*args, *engine)
        with subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(TMPDIR=str(temporary))
        ) as launcher:
            try:
                assert service.asked.wait(SECONDS), "nobody asked for a job"
                launcher.send_signal(number)
                out, err = launcher.communicate(timeout=SECONDS)
            finally:
                launcher.kill()
    return launcher.returncode, out, said(err), address


@signals
def test_a_signal_while_the_job_is_handed_over_says_that_it_may_run(
    number: signal.Signals, photos: Path, tmp_path: Path
) -> None:
    code, out, err, address = interrupted(builds.build_args(photos, tmp_path / "out"), number, tmp_path)
    assert (code, out, err) == (
        4,
        "",
        f"\nshardfeed: stopped while the job was handed over to {address}: it may have been taken, and then it goes on. Rerun "
        "the same command to join it.\n",
    )
    assert not [*tmp_path.glob("beam-pipeline-temp*")]


def test_a_job_whose_workers_are_of_the_launcher_cannot_go_on_and_nothing_says_that_it_may(
    photos: Path, tmp_path: Path
) -> None:
    args = builds.build_args(photos, tmp_path / "out", "--environment_type", "LOOPBACK")
    code, out, err, _ = interrupted(args, signal.SIGINT, tmp_path)
    assert (code, out, err) == (4, "", "\nshardfeed: stopped; rerun the same command to carry on.\n")


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "JSON"])
def test_a_job_that_shall_not_be_waited_for_is_submitted_and_publishes_by_itself(
    as_json: bool, prism_program: Path, pool: Server, photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    args = builds.build_args(photos, out, *FLAGS, *["--json"] * as_json)
    with servers.prism(prism_program, pool, tmp_path) as engine:
        ended = builds.run(*args, *engine.flags, "--no_wait_until_finish")
        engine.wait_until_job_ends()

    assert (ended.code, ended.err) == (0, "")
    if as_json:
        told = {"status": "submitted", "output": str(out), "job_id": "job-001", "link": None}
        assert json.loads(ended.out) == told
    else:
        assert ended.out == (
            f"Submitted, not waited for: job job-001\nThe dataset is there when {out}/manifest.json is; to see whether it is, "
            "rerun the same command.\n"
        )
    assert disk.digests(out) == reference
