"""A job whose workers never begin is waited for, but not without a word; one whose workers are at work is."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.portability.portable_runner import PipelineResult

from shardfeed.pipeline.engines.first_sign import has_begun
from tests.engines.conftest import FLAGS, StuckBuild
from tests.engines.worker import Worker
from tests.kit import builds
from tests.kit.commands import environment
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

# ``shardfeed`` that does not wait a minute.
IMPATIENT = """
import sys
from shardfeed import __main__
from shardfeed.pipeline.engines import first_sign
first_sign.SECONDS = 0.5
sys.exit(__main__.main())
"""


class _BareWorker(Worker):
    """Its pool has Beam; the ``python`` that the pool starts sees no installed package."""

    def environment(self, home: Path) -> dict[str, str]:
        program = home / "bare" / "python"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {self.python} -I -S "$@"\n')
        program.chmod(0o755)
        env = super().environment(home)
        return {**env, "PATH": f"{program.parent}{os.pathsep}{env['PATH']}"}


@pytest.fixture
def bare_pool(worker: Worker, tmp_path: Path) -> Iterator[Server]:
    with servers.worker_pool(_BareWorker(worker.python, worker.site, worker.hook), tmp_path) as server:
        yield server


def _line_with(process: subprocess.Popen[bytes], words: str) -> str:
    assert process.stderr is not None
    text = b""
    while words.encode() not in text or not text.endswith(b"\n"):
        assert select.select([process.stderr], [], [], 60)[0], text
        data = os.read(process.stderr.fileno(), 4096)
        assert data, text
        text += data
    (line,) = [line for line in text.decode().splitlines() if words in line]
    return line


def test_a_pool_whose_python_has_no_beam_is_told_of_once_while_the_job_is_waited_for(
    prism_program: Path, bare_pool: Server, photos: Path, tmp_path: Path
) -> None:
    with servers.prism(prism_program, bare_pool, tmp_path) as engine:
        args = builds.build_args(photos, tmp_path / "out", *FLAGS, *engine.flags)
        program = [sys.executable, "-c", IMPATIENT, *args]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as launcher:
            line = _line_with(launcher, "no worker")
            assert line == (
                "shardfeed: no worker was heard of in 0.5 s (some engines tell nothing while a large input is listed). See "
                f"that the workers at {bare_pool.address} run, and that their `python` has shardfeed and apache-beam. Still "
                "waiting."
            )
            assert launcher.poll() is None
            launcher.terminate()
            out, err = launcher.communicate(timeout=60)
        assert (launcher.returncode, out) == (4, b"")
        assert b"no worker" not in err
        assert b"no longer waiting; the job goes on" in err


class _NoCounts:
    """Beam's result on an engine that tells no counts before the end."""

    def metrics(self) -> Any:
        raise NotImplementedError


class _NoCountsYet:
    """Beam's result before a worker has counted anything."""

    def metrics(self) -> Any:
        return self

    def query(self, _filter: Any) -> Any:
        return {"counters": []}


def test_a_worker_is_heard_of_by_its_claim_or_by_what_it_counts(stuck_build: StuckBuild, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert (has_begun(_NoCounts(), out), has_begun(_NoCountsYet(), out)) == (False, False)
    with stuck_build() as stuck:
        with grpc.insecure_channel(stuck.engine.service.address) as channel:
            service: Any = beam_job_api_pb2_grpc
            result: Any = PipelineResult(service.JobServiceStub(channel), "job-001", iter(()), iter(()))
            heard = has_begun(_NoCounts(), out), has_begun(_NoCountsYet(), out), has_begun(result, str(tmp_path))
        assert heard == (True, True, True)
        assert result._metrics is None  # else the summary would be told these counts at the end


def test_an_output_that_cannot_be_looked_at_is_no_reason_to_warn(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "out")
    assert has_begun(_NoCounts(), str(tmp_path / "out"))
