"""Google's own client of Cloud Storage, which the job lists, writes and composes with.

obstore, which reads, has no generations in its listing, no preconditions and cannot compose. Both
get the same credentials: the application default ones, or none for an emulator.
"""

from __future__ import annotations

import os
import threading

# Set before the import below: else the client asks for the bucket's metadata once, which needs a
# permission of its own.
os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")

from google.cloud.storage import Client
from requests.adapters import HTTPAdapter

from shardfeed.storage.object_clients import CONNECTIONS, emulator, google_credentials

_lock = threading.Lock()
_google: dict[str, Client] = {}


def google_client() -> Client:
    """This process's google-cloud-storage client, for Google or ``STORAGE_EMULATOR_HOST``.

    It shares sockets, so a forked child makes its own.
    """
    endpoint = emulator()
    with _lock:
        if endpoint not in _google:
            _google[endpoint] = _new_google_client(endpoint)
        return _google[endpoint]


def _new_google_client(endpoint: str) -> Client:
    # With an emulator the client is anonymous. Our requests need no project.
    if endpoint:
        client = Client(project=None, client_options={"api_endpoint": endpoint})
    else:
        client = Client(project=None, credentials=google_credentials())
    # The default pool of 10 closes connections when there are more than 10 threads.
    adapter = HTTPAdapter(pool_connections=4, pool_maxsize=CONNECTIONS)
    client._http.mount("https://", adapter)
    client._http.mount("http://", adapter)
    return client


def _forget_clients() -> None:
    global _lock
    _lock = threading.Lock()
    _google.clear()


os.register_at_fork(after_in_child=_forget_clients)
