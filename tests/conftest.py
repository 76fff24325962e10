"""Servers that several test packages need."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from shardfeed.pipeline.report import progress
from shardfeed.storage import retry
from shardfeed.transforms.pool import pool
from tests.kit.builds import share_builders
from tests.kit.servers.fake_gcs_server import running_fake_gcs_server
from tests.kit.servers.strict_gcs import StrictGCS

# Properties are not timed: a busy machine must not fail a test. CI tries the same examples each
# time.
settings.register_profile("shardfeed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("shardfeed")

# A script's background jobs ignore Ctrl-C, and so would all programs that tests start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pool.MOST_PROCESSES = 0  # builds in this process encode in it too, where tests can replace what they call
progress._LOG_SECONDS = 3600  # what a build in this process says must not depend on how busy this machine is


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers of xdist find what the first process made
        share_builders()


@pytest.fixture(scope="session")
def fake_gcs_server() -> Iterator[str]:
    """Address of the real fake-gcs-server, one for the whole run; use ``gcs_bucket`` to have a
    bucket of your own.
    """
    with running_fake_gcs_server() as url:
        yield url


@pytest.fixture
def gcs_bucket(fake_gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """``gs://…`` of a new, empty bucket on fake-gcs-server, which this process and its children
    take for Google's.
    """
    from shardfeed.storage.gcs_clients import google_client

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake_gcs_server)
    name = f"bucket-{uuid.uuid4().hex}"
    google_client().create_bucket(name)
    return f"gs://{name}"


@pytest.fixture
def strict_gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictGCS]:
    """Our own server with the empty bucket ``bucket``; this process takes it for Google's, and does
    not wait between attempts.
    """
    with StrictGCS() as server:
        server.objects.buckets["bucket"] = {}
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setattr(retry, "sleep", lambda seconds: None)
        yield server
