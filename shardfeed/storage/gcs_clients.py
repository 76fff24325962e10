"""Two clients for Google Cloud Storage. A process has one of each, shared by its threads.

obstore (Rust) reads and deletes: 0.17 ms of CPU per 28 kB image against 1.3 ms of
google-cloud-storage, which the GIL limits to about 750 reads/s per process. google-cloud-storage
does the rest: obstore's listing has no generations, and obstore cannot compose. Both get the same
credentials: the application default ones, or none for an emulator.

Clients are made at the first call, never at import. They do not survive a fork: the child would
share their sockets, and obstore's threads do not exist there, so that a read would wait for ever.
A child that was forked after obstore was used reads with Google's client.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

# Set before the import below: else the client asks for the bucket's metadata once, which needs a
# permission of its own.
os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")

import google.auth
import google.auth.exceptions
import obstore
from google.auth.credentials import Credentials
from google.auth.transport.requests import Request
from google.cloud.storage import Client
from obstore.store import GCSStore as ObstoreBucket
from obstore.store import MemoryStore
from requests.adapters import HTTPAdapter

from shardfeed.errors import UsageError, clip

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_CONNECTIONS = 64  # kept open per process; more threads than that find no more bandwidth
# Seconds: to connect; without an answer (for obstore: for the whole request, 64 MB at 0.5 MB/s).
TIMEOUT = (10, 120)

_TOKIO_THREADS = "TOKIO_WORKER_THREADS"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_lock = threading.Lock()
_google: dict[str, Client] = {}
_obstore: dict[tuple[str, str], ObstoreBucket] = {}
_forked_from_obstore = False


def google_client() -> Client:
    """This process's google-cloud-storage client, for Google or ``STORAGE_EMULATOR_HOST``."""
    endpoint = _emulator()
    with _lock:
        if endpoint not in _google:
            _google[endpoint] = _new_google_client(endpoint)
        return _google[endpoint]


def obstore_bucket(name: str) -> ObstoreBucket | None:
    """This process's obstore client for one bucket.

    None in a process forked after obstore was used.
    """
    if _forked_from_obstore:
        return None
    endpoint = _emulator()
    credentials = None if endpoint else google_client()._credentials
    with _lock:
        if not _obstore:
            _start_obstore()
        if (endpoint, name) not in _obstore:
            _obstore[endpoint, name] = _new_obstore_bucket(endpoint, name, credentials)
        return _obstore[endpoint, name]


def _start_obstore() -> None:
    """Starts obstore's own threads: one, because several take over each other's connections.

    A read of 28 kB by four threads on two cores took 370-410 us of CPU with two, 260-280 us with
    one. obstore takes the number from the environment only, at its first call of any kind. Other
    libraries of this process read the variable too, so it is removed again.
    """
    given = os.environ.get(_TOKIO_THREADS)
    if given is None:
        os.environ[_TOKIO_THREADS] = "1"
    try:
        obstore.put(MemoryStore(), "any", b"")
    finally:
        if given is None:
            del os.environ[_TOKIO_THREADS]


def _emulator() -> str:
    """Address of ``STORAGE_EMULATOR_HOST``; ``host:port`` alone means http, as in Go's client."""
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return host if not host or "://" in host else f"http://{host}"


def _new_google_client(endpoint: str) -> Client:
    # With an emulator the client is anonymous. Our requests need no project.
    if endpoint:
        client = Client(project=None, client_options={"api_endpoint": endpoint})
    else:
        client = Client(project=None, credentials=_default_credentials())
    # The default pool of 10 closes connections when there are more than 10 threads.
    adapter = HTTPAdapter(pool_connections=4, pool_maxsize=_CONNECTIONS)
    client._http.mount("https://", adapter)
    client._http.mount("http://", adapter)
    return client


def _default_credentials() -> Credentials:
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.DefaultCredentialsError as error:
        if path := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            what = f"cannot be used: {clip(error)}" if os.path.exists(path) else "does not exist"
            raise UsageError(
                f"GOOGLE_APPLICATION_CREDENTIALS names {clip(path)}, which {what.rstrip('.')}. Name a service account's key "
                "file, or unset it and log in with: gcloud auth application-default login"
            ) from error
        raise UsageError(
            "gs:// needs Google credentials and none were found. Log in with: gcloud auth application-default login "
            "(or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file)."
        ) from error
    return credentials


def _new_obstore_bucket(endpoint: str, name: str, credentials: Credentials | None) -> ObstoreBucket:
    options: ClientConfig = {
        "connect_timeout": f"{TIMEOUT[0]}s",
        "timeout": f"{TIMEOUT[1]}s",
        "pool_max_idle_per_host": str(_CONNECTIONS),
        # Without it Google unpacks objects of Content-Encoding gzip on the way: the bytes are not
        # the listed ones and have no length.
        "default_headers": {"Accept-Encoding": "gzip"},
    }
    no_retries: Any = {"max_retries": 0, "retry_timeout": timedelta(0)}  # see shardfeed.storage.retry
    if credentials is not None:
        return ObstoreBucket(
            name, client_options=options, retry_config=no_retries, credential_provider=credential_provider(credentials)
        )
    # Only a service account's key turns OAuth off for deletions; skip_signature does so for reads
    # alone.
    key = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return ObstoreBucket(
        name,
        config={"service_account_key": json.dumps(key)},
        client_options={**options, "allow_http": True},
        retry_config=no_retries,
    )


def credential_provider(credentials: Credentials) -> Any:
    """Gives obstore the credentials of google-auth, so that both clients use the same account.

    obstore's own provider needs Python 3.11.
    """

    def refreshed() -> dict[str, Any]:
        credentials.refresh(Request())  # type: ignore[no-untyped-call]
        expiry: datetime | None = credentials.expiry  # UTC without a time zone
        return {
            "token": credentials.token,
            "expires_at": None if expiry is None else expiry.replace(tzinfo=timezone.utc),
        }

    return refreshed


def _forget_clients() -> None:
    global _lock, _forked_from_obstore
    _lock = threading.Lock()
    _forked_from_obstore = _forked_from_obstore or bool(_obstore)
    _google.clear()
    _obstore.clear()


os.register_at_fork(after_in_child=_forget_clients)
