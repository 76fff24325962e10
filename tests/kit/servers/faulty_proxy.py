"""A proxy before any server of objects that misbehaves on demand, whatever the server speaks.

with FaultyProxy(server) as proxy:
    proxy.inject("half", times=3)
    ...  # read through proxy.url
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from tests.kit.servers.in_a_thread import InAThread

Effect = Literal["503", "half", "short", "late"]
EFFECTS: tuple[Effect, ...] = ("503", "half", "short", "late")
_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


class FaultyProxy(InAThread):
    """The proxy. ``log``: method, path and headers of every request."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self._effect: Effect | None = None
        self._times = 0
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def inject(self, effect: Effect, times: int) -> None:
        """Spoils the next ``times`` requests for the bytes of a file (GET).

        ``503``: that answer. ``half``: half the body, then the connection ends. ``short``: half the
        body, and a length that says that it is whole. ``late``: no answer until the client gives
        up.
        """
        with self._lock:
            self._effect, self._times = effect, times

    @property
    def left(self) -> int:
        """Number of requests that are still to be spoilt."""
        return self._times

    def effect_on(self, method: str, path: str, headers: dict[str, str]) -> Effect | None:
        with self._lock:
            self.log.append((method, path, headers))
            if method != "GET" or not self._times or "list" in path:
                return None
            self._times -= 1
            return self._effect


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that closes its connection is no error


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        effect = self.server.proxy.effect_on(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
        if effect == "503":
            return self._answer(503, {}, b"busy", 4)
        if effect == "late":
            self.connection.recv(1)  # returns when the client has left
            return self._hang_up()
        upstream = http.client.HTTPConnection(self.server.proxy.upstream)
        upstream.request(self.command, self.path, sent, {k: v for k, v in self.headers.items() if k.lower() != "host"})
        found = upstream.getresponse()
        body = found.read()
        upstream.close()
        headers = {name: value for name, value in found.getheaders() if name.lower() not in _HOP}
        length = int(found.headers.get("Content-Length", len(body))) if self.command == "HEAD" else len(body)
        if effect == "short":
            body = body[: length // 2]
            length = len(body)
        self._answer(found.status, headers, body[: length // 2] if effect == "half" else body, length)
        if effect == "half":
            self._hang_up()

    do_HEAD = do_PUT = do_POST = do_GET

    def _answer(self, status: int, headers: dict[str, str], body: bytes, length: int) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
