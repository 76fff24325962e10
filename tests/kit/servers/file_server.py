"""A web server of one folder that answers requests for ranges, and one that does not."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


@contextlib.contextmanager
def running_file_server(folder: Path, *, ranges: bool = True) -> Iterator[str]:
    """Serves the files of ``folder`` on a free port of 127.0.0.1; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            path = folder / unquote(self.path).lstrip("/")
            if not path.is_file():
                return self._answer(404, b"not found")
            data = path.read_bytes()
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if ranges else None
            if span is None:
                return self._answer(200, data)
            start, stop = int(span[1]), min(int(span[2] or len(data)) + 1, len(data))
            if start >= len(data):
                return self._answer(416, b"")
            self._answer(206, data[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"})

        do_HEAD = do_GET

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
