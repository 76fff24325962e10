"""A local build speaks to nobody and starts nothing: no look-up, no connection, no other engine.

Beam's own DirectRunner asks a server for a Go program and runs it, or one from its cache.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import apache_beam
import pytest

from tests.kit.commands import environment, shardfeed, write_photos

# Python tells its audit hooks of every look-up, connection and new process before it happens.
LOGGING_CHILD = """
import sys
def audit(event, arguments):
    if event in {events!r}:
        with open({log!r}, "a") as log:
            log.write(f"{{event}} {{arguments}}\\\\n")
sys.addaudithook(audit)
"""
EVENTS = (
    *("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto", "urllib.Request"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
)


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """Environment with which a child writes to ``log`` what it does outside of itself."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(LOGGING_CHILD.format(events=EVENTS, log=str(tmp_path / "log")))
    (tmp_path / "log").touch()
    return {"PYTHONPATH": f"{site}:{environment()['PYTHONPATH']}", "HOME": str(tmp_path)}


def _put_prism_into_the_cache(home: Path) -> None:
    cache = home / ".apache_beam" / "cache" / "prism"
    (cache / "bin").mkdir(parents=True)
    name = f"apache_beam-v{apache_beam.__version__}-prism-linux-amd64"
    with zipfile.ZipFile(cache / f"{name}.zip", "w") as archive:
        archive.writestr(name, f"#!/bin/sh\ntouch {home}/prism-was-started\n")
    program = cache / "bin" / name
    program.write_text(f"#!/bin/sh\ntouch {home}/prism-was-started\n")
    program.chmod(0o755)


@pytest.mark.parametrize("runner", [(), ("--runner=directrunner",)], ids=" ".join)
def test_a_local_build_speaks_to_nobody_and_starts_nothing_but_its_helpers(
    tmp_path: Path, watched: dict[str, str], runner: tuple[str, ...]
) -> None:
    _put_prism_into_the_cache(tmp_path)
    write_photos(tmp_path / "in", cat=4, dog=4)

    flags = ("--input", f"{tmp_path}/in", "--output", f"{tmp_path}/out", "--image_size", "16", *runner)
    ended = shardfeed("build", *flags, **watched)

    assert (ended.returncode, ended.stderr) == (0, "")
    log = (tmp_path / "log").read_text().splitlines()
    ours = ("shardfeed.transforms.pool.worker", "os.fork ()")
    assert [line for line in log if not any(words in line for words in ours)] == []
    assert not (tmp_path / "prism-was-started").exists()


def test_the_watch_sees_a_look_up_and_a_process(tmp_path: Path, watched: dict[str, str]) -> None:
    code = "import socket, subprocess; subprocess.run(['true']); socket.getaddrinfo('localhost', 80)"
    subprocess.run([sys.executable, "-c", code], env=environment(**watched), check=True, timeout=60)

    log = (tmp_path / "log").read_text()
    assert "subprocess.Popen ('true'" in log
    assert "socket.getaddrinfo ('localhost', 80" in log
