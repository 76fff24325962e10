"""The processes of a portable engine: its job service, and a pool that starts workers for it.

Each runs in ``/`` with a worker's variables, on a free port, and is killed with everything below
it at the end of its block. Beam's own programs listen on all interfaces and have no flag for
another; they are up for seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from shardfeed.processes import descendants
from tests.kit.beam_worker import Worker
from tests.kit.servers.ports import unused_port

START_SECONDS = 60.0  # a worker pool starts in 2 s on an idle machine
_JOB_SECONDS = 60.0
_LAST = {beam_job_api_pb2.JobState.Enum.Value(name) for name in ("DONE", "CANCELLED", "FAILED")}


@dataclass(frozen=True)
class Server:
    """A process that listens at ``localhost:port``."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"


@dataclass(frozen=True)
class Engine:
    """A job service and a pool of workers; ``flags`` are what a build needs to run there."""

    service: Server
    pool: Server

    @property
    def flags(self) -> tuple[str, ...]:
        where = ("--environment_type", "EXTERNAL", "--environment_config", self.pool.address)
        return ("--runner", "PortableRunner", "--job_endpoint", self.service.address, *where)

    def wait_until_job_ends(self) -> None:
        """Asks the service for the states of its only job until the last."""
        with grpc.insecure_channel(self.service.address) as channel:
            stub: Any = beam_job_api_pb2_grpc
            states = stub.JobServiceStub(channel).GetStateStream(
                beam_job_api_pb2.GetJobStateRequest(job_id="job-001"), timeout=_JOB_SECONDS
            )
            assert any(state.state in _LAST for state in states), "the engine tells of no end"


@contextlib.contextmanager
def worker_pool(worker: Worker, home: Path) -> Iterator[Server]:
    """Starts a new worker process for every job that asks for one."""
    program = (str(worker.python), "-m", "apache_beam.runners.worker.worker_pool_main", "--service_port", "{port}")
    with _started(program, worker.environment(home), home / "pool.log") as server:
        yield server


@contextlib.contextmanager
def pools_in_turn(worker: Worker, pools: Sequence[Server], home: Path) -> Iterator[Server]:
    """One address for many pools: workers are started by one after another of them."""
    addresses = (pool.address for pool in pools)
    command = (str(worker.python), str(Path(__file__).with_name("pools_in_turn.py")), "{port}", *addresses)
    with _started(command, worker.environment(home), home / "pools_in_turn.log") as server:
        yield server


@contextlib.contextmanager
def prism(program: Path, pool: Server, home: Path, *, nice: int = 0) -> Iterator[Engine]:
    """Prism, with the pool's workers.

    At no low priority in tests: others keep all cores busy for a minute at times.
    """
    command = (
        "nice",
        "-n",
        str(nice),
        str(program),
        "--job_port",
        "{port}",
        "--serve_http=false",
        "--log_kind",
        "text",
    )
    env = {"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath}
    with _started(command, env, home / "prism.log") as service:
        yield Engine(service, pool)


@contextlib.contextmanager
def job_service(worker: Worker, pool: Server, home: Path, *, workers: int) -> Iterator[Engine]:
    """Beam's own job service; it runs a job with so many workers of the pool."""
    command = (str(worker.python), str(Path(__file__).with_name("job_service.py")), "{port}", str(workers))
    with _started(command, worker.environment(home), home / "job_service.log") as service:
        yield Engine(service, pool)


@contextlib.contextmanager
def _started(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[Server]:
    port = unused_port()
    words = [word.format(port=port) for word in command]
    with log.open("wb") as out:
        process = subprocess.Popen(words, cwd="/", env=env, stdout=out, stderr=out)
    server = Server(process, port)
    try:
        _wait_for(server)
        yield server
    finally:
        for pid in descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def _wait_for(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("localhost", server.port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{server.process.args!r} does not listen; it ended with {server.process.poll()}")
