"""A build on an engine whose worker stands still in the middle of encoding, until the gate is opened."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from tests.engines import servers
from tests.engines.servers import Engine
from tests.engines.worker import Worker
from tests.pipeline.photos import command, environment

# From the tenth image on a worker tells who it is, and waits for the gate.
_HOOK = """
import itertools
from transforms import encoding
process, count = encoding.process_image, itertools.count()
def stuck(*args, **kwargs):
    if next(count) >= 10:
        with open({reached!r}, "w") as reached:
            reached.write(f"{{os.getpid()}}\\n")
        open({gate!r}).read()
    return process(*args, **kwargs)
encoding.process_image = stuck
"""
_SECONDS = 60.0
_LAST = {beam_job_api_pb2.JobState.Enum.Value(name) for name in ("DONE", "CANCELLED", "FAILED")}


@dataclass(frozen=True)
class Stuck:
    """``launcher`` waits for the job; ``worker`` is the process id of the one that stands still."""

    launcher: subprocess.Popen[str]
    engine: Engine
    worker: int
    gate: Path

    def open_gate(self) -> None:
        """Lets the worker go on, now and from now on."""
        os.close(os.open(self.gate, os.O_RDWR))
        self.gate.unlink()
        self.gate.touch()

    def wait_until_job_ends(self) -> None:
        """Asks the engine for the states of its only job until the last."""
        with grpc.insecure_channel(self.engine.service.address) as channel:
            states = beam_job_api_pb2_grpc.JobServiceStub(channel).GetStateStream(
                beam_job_api_pb2.GetJobStateRequest(job_id="job-001"), timeout=_SECONDS
            )
            assert any(state.state in _LAST for state in states), "the engine tells of no end"


@contextlib.contextmanager
def stuck_on_prism(
    program: Path, worker: Worker, folder: Path, *args: str, terminal: int | None = None
) -> Iterator[Stuck]:
    """``shardfeed args…`` on Prism; ``terminal`` is what it has for standard input and error, where given."""
    reached, gate = folder / "reached", folder / "gate"
    os.mkfifo(reached)
    os.mkfifo(gate)
    pipe = os.open(reached, os.O_RDWR)  # does not wait for a writer, who may never come
    hook = _HOOK.format(reached=str(reached), gate=str(gate))
    try:
        with servers.prism(program, worker, folder, hook) as engine:
            launcher = subprocess.Popen(
                command(*args, *engine.flags),
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if terminal is None else terminal,
                text=True,
                cwd=folder,
                env=environment(TMPDIR=str(folder)),
            )
            try:
                came = select.select([pipe], [], [], _SECONDS)[0]
                assert came, f"no worker came as far as encoding; the launcher ended with {launcher.poll()}"
                yield Stuck(launcher, engine, int(os.read(pipe, 100).split()[0]), gate)
            finally:
                launcher.kill()
                launcher.wait()
    finally:
        os.close(pipe)
