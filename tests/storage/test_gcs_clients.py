"""The clients themselves: one a process, and the same account for both."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import google.auth.credentials
import obstore
import pytest
from obstore.store import GCSStore

from shardfeed.storage.gcs_clients import google_client
from shardfeed.storage.object_clients import credential_provider, object_client
from shardfeed.transforms import stores
from shardfeed.transforms.sources import open_source
from tests.kit.servers.strict_gcs import StrictGCS


class Account(google.auth.credentials.Credentials):
    """Numbered tokens, valid for an hour."""

    refreshed = 0

    def refresh(self, request: object) -> None:
        self.refreshed += 1
        self.token = f"token-{self.refreshed}"
        self.expiry = datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(hours=1)  # as google-auth keeps it


def test_threads_share_one_client_of_each_kind(strict_gcs: StrictGCS) -> None:
    with ThreadPoolExecutor(8) as threads:
        clients = list(threads.map(lambda _: (google_client(), object_client("gs", "bucket")), range(64)))
    assert {(id(google), id(rust)) for google, rust in clients} == {
        (id(google_client()), id(object_client("gs", "bucket")))
    }


def test_another_endpoint_has_clients_of_its_own(strict_gcs: StrictGCS, monkeypatch: pytest.MonkeyPatch) -> None:
    first = google_client()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    assert google_client() is not first


@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "{}", "{}/"])
def test_an_emulator_may_be_given_without_a_scheme(
    form: str, strict_gcs: StrictGCS, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", form.format(strict_gcs.url.removeprefix("http://")))
    stores.open_output("gs://bucket").create("in/1.jpg", b"x")
    source = open_source("gs://bucket/in")
    (listed,) = source.list(b"")

    assert (listed.key, source.read(listed.key, listed.stat), waits) == (b"1.jpg", b"x", [])
    assert [request.kind for request in strict_gcs.log] == ["upload", "list", "get"]


def test_an_emulator_is_asked_without_credentials(strict_gcs: StrictGCS) -> None:
    strict_gcs.objects.put("bucket", "a", b"x")
    google_client().bucket("bucket").blob("a").download_as_bytes()
    obstore.get(object_client("gs", "bucket"), "a")
    assert [request.headers.get("authorization") for request in strict_gcs.log] == [None, None]


def test_obstore_reads_with_google_s_credentials_and_asks_for_a_token_once(strict_gcs: StrictGCS) -> None:
    strict_gcs.objects.put("bucket", "a", b"x")
    bucket = GCSStore(
        "bucket",
        config={"base_url": strict_gcs.url},
        client_options={"allow_http": True},
        credential_provider=credential_provider(Account()),
    )
    for _ in range(3):
        assert bytes(obstore.get(bucket, "a").bytes()) == b"x"
    assert [request.headers["authorization"] for request in strict_gcs.log] == ["Bearer token-1"] * 3


@pytest.mark.parametrize(("given", "threads"), [(None, 1), ("3", 3)], ids=["one", "as given"])
def test_obstore_has_few_threads_and_leaves_the_environment_alone(given: str | None, threads: int) -> None:
    code = (
        "import os, shardfeed.storage.object_clients as clients; before = dict(os.environ); "
        "threads = len(os.listdir('/proc/self/task')); clients.object_client('gs', 'b'); "
        "print(dict(os.environ) == before, len(os.listdir('/proc/self/task')) - threads)"
    )
    assert _run(code, given) == (0, f"True {threads}\n", "")


@pytest.mark.parametrize("ended", ["os._exit(0)", "sys.exit()"])
def test_a_fork_destroys_no_client_of_its_parent(ended: str) -> None:
    """Else the fork would wait for ever, if a thread of obstore held a lock when it was made."""
    code = f"""if True:
        import os, sys, shardfeed.storage.object_clients as clients

        class Client:
            def __del__(self): os.write(1, b"destroyed in the fork" if os.getpid() != parent else b"")

        parent = os.getpid()
        clients._clients["gs", "bucket", None] = Client()
        if os.fork() == 0:
            {ended}
        os.wait()
    """
    assert _run(code, None) == (0, "", "")


def _run(code: str, tokio_threads: str | None) -> tuple[int, str, str]:
    env = {name: value for name, value in os.environ.items() if name != "TOKIO_WORKER_THREADS"}
    env |= {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"} | (
        {} if tokio_threads is None else {"TOKIO_WORKER_THREADS": tokio_threads}
    )
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr
