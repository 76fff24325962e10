"""obstore's clients of gs://, s3://, az:// and https://: one per bucket, shared by all threads.

obstore (Rust) reads with 0.17 ms of CPU per 28 kB against 1.3 ms of google-cloud-storage, which the
GIL limits to about 750 reads/s per process. It takes addresses of emulators and credentials from
the variables that each cloud's own tools read. What it has no way to find is found here: Google's
application default credentials, and those of a profile of AWS.

Clients are made at the first call, never at import, and do not survive a fork: obstore's threads do
not exist in the child, so a read would wait for ever. There the library is loaded a second time.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import obstore
import obstore.store

from shardfeed.errors import UsageError, clip

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from obstore.store import ClientConfig, ObjectStore

CONNECTIONS = 64  # kept open per process; more threads than that find no more bandwidth
# Seconds: to connect; for the whole request, 64 MB at 0.5 MB/s.
TIMEOUT = (10, 120)

_LIBRARY = str(sys.modules["obstore._obstore"].__file__)
_TOKIO_THREADS = "TOKIO_WORKER_THREADS"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_ENDPOINT = {"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL", "az": "AZURITE_BLOB_STORAGE_URL"}
# Any of these is a source of credentials that obstore reads by itself.
_AWS_WITHOUT_PROFILE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_PROFILE_SECONDS = 600  # botocore refreshes what ends within 15 minutes, and is asked this often

_lock = threading.Lock()
_clients: dict[tuple[str, str, str | None], ObjectStore] = {}
_started = False
_is_forked = False  # from a process that had started obstore


def object_client(scheme: str, bucket: str) -> ObjectStore:
    """This process's client for one bucket; ``bucket`` as ``split_url`` gives it.

    Raises:
        UsageError: there are no credentials, or no account of Azure.
    """
    endpoint = os.environ.get(_ENDPOINT.get(scheme, ""))
    with _lock:
        if _is_forked:
            _load_again()
        elif not _started:
            _start_obstore()
        if (scheme, bucket, endpoint) not in _clients:
            _clients[scheme, bucket, endpoint] = _new_client(scheme, bucket)
        return _clients[scheme, bucket, endpoint]


def emulator() -> str:
    """Address of ``STORAGE_EMULATOR_HOST``; ``host:port`` alone means http, as in Go's client."""
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return host if not host or "://" in host else f"http://{host}"


def google_credentials() -> Credentials:
    """The application default ones.

    Raises:
        UsageError: there are none.
    """
    import google.auth
    import google.auth.exceptions

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


def credential_provider(credentials: Credentials) -> Any:
    """Gives obstore the credentials of google-auth, which know more kinds of accounts.

    obstore's own provider needs Python 3.11.
    """
    from google.auth.transport.requests import Request

    def refreshed() -> dict[str, Any]:
        credentials.refresh(Request())  # type: ignore[no-untyped-call]
        expiry: datetime | None = credentials.expiry  # UTC without a time zone
        return {
            "token": credentials.token,
            "expires_at": None if expiry is None else expiry.replace(tzinfo=timezone.utc),
        }

    return refreshed


def _new_client(scheme: str, bucket: str) -> ObjectStore:
    options: ClientConfig = {
        "connect_timeout": f"{TIMEOUT[0]}s",
        "timeout": f"{TIMEOUT[1]}s",
        "pool_max_idle_per_host": str(CONNECTIONS),
        # The address of an emulator may be http://; that of a cloud never is.
        "allow_http": scheme != "https",
    }
    no_retries: Any = {"max_retries": 0, "retry_timeout": timedelta(0)}  # see shardfeed.storage.retry
    common: Any = {"client_options": options, "retry_config": no_retries}
    if scheme == "gs":
        # Without it Google unpacks objects of Content-Encoding gzip on the way: the bytes are not
        # the listed ones and have no length.
        options["default_headers"] = {"Accept-Encoding": "gzip"}
        return obstore.store.GCSStore(bucket, **_google_access(), **common)
    if scheme == "s3":
        return obstore.store.S3Store(bucket, **_aws_access(), **common)
    if scheme == "az":
        try:
            return obstore.store.AzureStore(bucket, **common)
        except obstore.exceptions.BaseError as error:
            raise UsageError(
                f"az://{bucket} cannot be opened: {clip(str(error).partition(chr(10))[0])}. Set AZURE_STORAGE_ACCOUNT_NAME "
                "to the storage account that holds the container, and AZURE_STORAGE_ACCOUNT_KEY or "
                "AZURE_STORAGE_SAS_TOKEN, or AZURE_USE_AZURE_CLI=true after az login."
            ) from error
    return obstore.store.HTTPStore(bucket, **common)


def _google_access() -> dict[str, Any]:
    if endpoint := emulator():
        # Only a service account's key turns OAuth off for deletions; skip_signature does so for
        # reads alone.
        key = {"gcs_base_url": endpoint, "disable_oauth": True} | dict.fromkeys(
            ("client_email", "private_key", "private_key_id"), ""
        )
        return {"config": {"service_account_key": json.dumps(key)}}
    return {"credential_provider": credential_provider(google_credentials())}


def _aws_access() -> dict[str, Any]:
    """Credentials and region of a profile in ``~/.aws``, which obstore does not read."""
    files = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    if any(map(os.environ.get, _AWS_WITHOUT_PROFILE)) or not any(os.path.exists(os.path.expanduser(f)) for f in files):
        return {}
    try:
        import botocore.session
    except ImportError as error:
        raise UsageError(
            "s3:// needs credentials. There are profiles in ~/.aws, which boto3 reads, and it is not installed here: "
            "pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. For a public bucket, set "
            "AWS_SKIP_SIGNATURE=true."
        ) from error
    session = botocore.session.get_session()
    credentials = session.get_credentials()
    if credentials is None:  # files of regions and formats alone: a role of this machine, perhaps
        return {}

    def refreshed() -> dict[str, Any]:
        found = credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(timezone.utc) + timedelta(seconds=_PROFILE_SECONDS),
        }

    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    return {"credential_provider": refreshed, "config": {"region": region} if region else {}}


def _start_obstore() -> None:
    """Starts obstore's own threads: one, because several take over each other's connections.

    A read of 28 kB by four threads on two cores took 370-410 us of CPU with two, 260-280 us with
    one. obstore takes the number from the environment only, at its first call of any kind. Other
    libraries of this process read the variable too, so it is removed again.
    """
    global _started
    _started = True
    given = os.environ.get(_TOKIO_THREADS)
    if given is None:
        os.environ[_TOKIO_THREADS] = "1"
    try:
        obstore.put(obstore.store.MemoryStore(), "any", b"")
    finally:
        if given is None:
            del os.environ[_TOKIO_THREADS]


def _load_again() -> None:
    """Replaces the library that was forked, whose threads are gone, by a fresh one.

    The loader takes a file or a path that it knows for what it has loaded, so this is a temporary
    copy (15 MB) under a new name. Python's modules of obstore stay and get the new content: whoever
    asks them for ``obstore.get`` or an exception finds the new one.
    """
    global _is_forked
    name = "obstore._obstore"
    with tempfile.NamedTemporaryFile(suffix=".so") as copy:
        with open(_LIBRARY, "rb") as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        loader = importlib.machinery.ExtensionFileLoader(name, copy.name)
        spec = importlib.util.spec_from_file_location(name, copy.name, loader=loader)
        assert spec is not None
        fresh = importlib.util.module_from_spec(spec)
        loader.exec_module(fresh)
    sys.modules[name] = obstore._obstore = fresh
    importlib.reload(obstore.store)
    importlib.reload(obstore)
    _is_forked = False
    _start_obstore()


def _forget_clients() -> None:
    """In a forked child: no client is of use any more.

    None may be destroyed either, not even when the child ends: that would ask for a lock of
    obstore's threads, which one of them may have held at the fork, and the child would wait for it
    for ever.
    """
    global _lock, _is_forked
    _lock = threading.Lock()
    _is_forked = _is_forked or _started
    for client in _clients.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _clients.clear()


os.register_at_fork(after_in_child=_forget_clients)
