"""A server of our own runs in a thread, from its ``with`` block's begin to its end."""

from __future__ import annotations

import socketserver
import threading
from typing import TypeVar

S = TypeVar("S", bound="InAThread")


class InAThread:
    """Serves with ``_server``, which the class that derives from this one makes."""

    _server: socketserver.BaseServer

    def __enter__(self: S) -> S:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
