"""Starts moto, which takes the place of AWS, and Azurite, which takes Azure's; both others' programs."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import re
import subprocess
from collections.abc import Iterator
from email.utils import formatdate

from tests.kit.environments import python_with
from tests.kit.fetched import azurite

_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("listens on http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
# Azurite's one account, which its documents name.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def running_moto() -> Iterator[str]:
    """A fake of S3 on a free port of 127.0.0.1; gives its address."""
    with _running([str(python_with("clouds")), "-c", _MOTO]) as url:
        yield url


@contextlib.contextmanager
def running_azurite() -> Iterator[str]:
    """A fake of Azure's blobs on a free port of 127.0.0.1; gives its address."""
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--silent"]
    with _running([str(azurite()), *options, "--skipApiVersionCheck"]) as url:
        yield url


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[str]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = (re.search(r"listens on (http://\S+)", line) for line in process.stdout)
            yield next(line[1] for line in found if line)
        finally:
            process.terminate()


def make_bucket(moto: str, name: str) -> None:
    """An empty bucket."""
    assert _put(moto, f"/{name}", {}) == 200


def make_container(azurite: str, name: str) -> None:
    """An empty container, which obstore cannot make."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "PUT" + "\n" * 12 + "".join(f"{key}:{value}\n" for key, value in headers.items())
    signed += f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
    mark = base64.b64encode(hmac.digest(base64.b64decode(_KEY), signed.encode(), hashlib.sha256)).decode()
    path = f"/{_ACCOUNT}/{name}?restype=container"
    assert _put(azurite, path, {**headers, "Authorization": f"SharedKey {_ACCOUNT}:{mark}"}) == 201


def _put(server: str, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request("PUT", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status
