"""A job whose workers never begin is waited for, but not without a word."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.format import naming
from shardfeed.pipeline.engines.first_sign import has_begun
from tests.engines.conftest import FLAGS
from tests.engines.worker import Worker
from tests.kit import builds
from tests.kit.commands import environment
from tests.kit.servers import engines as servers

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
    prism_program: Path, worker: Worker, photos: Path, tmp_path: Path
) -> None:
    bare = _BareWorker(worker.python, worker.site, worker.hook)
    with servers.worker_pool(bare, tmp_path) as pool, servers.prism(prism_program, pool, tmp_path) as engine:
        args = builds.build_args(photos, tmp_path / "out", *FLAGS, *engine.flags)
        program = [sys.executable, "-c", IMPATIENT, *args]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as launcher:
            assert _line_with(launcher, "no worker") == (
                "shardfeed: no worker has claimed the output in 0.5 s (a large input is listed before that). See that the "
                f"workers at {pool.address} run, and that their `python` has shardfeed and apache-beam. Still waiting."
            )
            assert launcher.poll() is None
            launcher.terminate()
            out, err = launcher.communicate(timeout=60)
        assert (launcher.returncode, out) == (4, b"")
        assert b"no worker" not in err
        assert b"no longer waiting; the job goes on" in err


@pytest.mark.parametrize("begun", [False, True])
def test_a_worker_is_heard_of_by_its_claim(begun: bool, tmp_path: Path) -> None:
    if begun:
        claim = tmp_path / naming.CLAIM
        claim.parent.mkdir()
        claim.write_text("{}")
    assert has_begun(str(tmp_path)) is begun


def test_an_output_that_cannot_be_looked_at_is_no_reason_to_warn(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "out")
    assert has_begun(str(tmp_path / "out"))
