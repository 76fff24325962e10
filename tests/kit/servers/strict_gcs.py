"""A strict GCS server in this process that notes its requests and misbehaves on demand.

    with StrictGCS() as server:
        server.objects.put("photos", "cat/1.jpg", data)
        server.inject("status", kind="list", status=503)

It speaks the JSON API (list, get, stat, multipart, resumable and media uploads, compose, delete)
and what obstore asks of the XML API (``/bucket/name``, HEAD, listing), over HTTP/1.1 with
keep-alive, and refuses query parameters that it does not know and writes without a precondition.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal
from xml.sax.saxutils import escape

from tests.kit.servers.gcs_objects import Object, Objects, Refusal, encode_crc
from tests.kit.servers.gcs_requests import Kind, Request, multipart, parse
from tests.kit.servers.in_a_thread import InAThread

Effect = Literal["status", "drop", "short", "corrupt", "lost_answer", "call"]
Transcoding = Literal["as asked", "streamed", "always"]

_KNOWN = {
    "project",
    "userProject",
    "projection",
    "prettyPrint",
    "fields",
    "prefix",
    "delimiter",
    "pageToken",
    "maxResults",
}
_KNOWN |= {"startOffset", "endOffset", "alt", "generation", "ifGenerationMatch", "ifGenerationNotMatch"}
_KNOWN |= {"uploadType", "upload_id", "name", "list-type", "continuation-token", "start-after"}


@dataclass
class Fault:
    """Strikes requests that match, after ``skip`` of them, ``times`` times (None: always)."""

    effect: Effect
    matches: Callable[[Request], bool]
    skip: int = 0
    times: int | None = 1
    status: int = 503
    text: str = "injected"
    action: Callable[[], object] = lambda: None


class StrictGCS(InAThread):
    """The server: its content (``objects``), requests (``log``) and number of ``connections``.

    ``transcoding``: what happens to objects of Content-Encoding gzip. ``as asked``: unpacked on
    the way unless the request accepts gzip. ``streamed``: the same, and stored bytes too come
    without a length, as Google sends large ones. ``always``: unpacked whatever the request
    accepts, as Google does with types that it takes for compressed already.
    """

    def __init__(self, page_size: int = 1000) -> None:
        self.objects = Objects()
        self.page_size = page_size
        self.transcoding: Transcoding = "as asked"
        self.log: list[Request] = []
        self.connections = 0
        self._faults: list[Fault] = []
        self._uploads: dict[str, tuple[Request, bytearray, str | None]] = {}
        self._open: set[socket.socket] = set()
        self._lock = threading.RLock()
        self._left = threading.Condition(self._lock)
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        with self._lock:
            for connection in list(self._open):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def inject(
        self,
        effect: Effect,
        kind: Kind | None = None,
        name: str | None = None,
        *,
        matches: Callable[[Request], bool] = lambda request: True,
        skip: int = 0,
        times: int | None = 1,
        status: int = 503,
        text: str = "injected",
        action: Callable[[], object] = lambda: None,
    ) -> Fault:
        """Makes requests of this kind, for this object and matching fail, ``times`` times.

        ``status``: that answer with that ``text``, nothing done. ``drop``: half the body, then the
        connection ends. ``short``: a body that lacks its end but says so nowhere. ``corrupt``: one
        bit flipped. ``lost_answer``: done, but the connection ends
        without an answer. ``call``: ``action`` runs first, then all goes on as usual; if it
        raises, nothing is done and the connection ends.
        """

        def strikes(request: Request) -> bool:
            return kind in (None, request.kind) and name in (None, request.name) and matches(request)

        fault = Fault(effect, strikes, skip, times, status, text, action)
        with self._lock:
            self._faults.append(fault)
        return fault

    def counts(self) -> Counter[Kind]:
        """Requests by kind."""
        with self._lock:
            return Counter(request.kind for request in self.log)

    def wait_until_left(self) -> None:
        """Waits until all connections are closed: all that a killed client sent is done then."""
        with self._left:
            self._left.wait_for(lambda: not self._open)

    def fault_for(self, request: Request) -> Fault | None:
        with self._lock:
            self.log.append(request)
            for fault in self._faults:
                if fault.times == 0 or not fault.matches(request):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body, without faults."""
        if unknown := set(request.query) - _KNOWN:
            raise Refusal(400, f"unknown query parameters {sorted(unknown)}")
        with self._lock:
            handler: Callable[[Request], tuple[int, dict[str, str], bytes]] = getattr(self, f"_{request.kind}")
            return handler(request)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._left:
            self._open.discard(connection)
            self._left.notify_all()

    def _unknown(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        raise Refusal(400, f"this server does not know {request.method} {request.name}")

    def _bucket(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        name = json.loads(request.body)["name"] if request.method == "POST" else request.bucket
        if request.method == "POST":
            self.objects.buckets.setdefault(name, {})
        self.objects.bucket(name)
        return _json({"kind": "storage#bucket", "name": name})

    def _list(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        if "list-type" in request.query:
            return self._list_in_xml(request)
        page = self.objects.page(request.bucket, request.query, self.page_size)
        return _json(_only(page, request.query.get("fields")))

    def _list_in_xml(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        query = {"prefix": request.query["prefix"], "pageToken": request.query.get("continuation-token", "")}
        if after := request.query.get("start-after"):
            query["startOffset"] = after + "\0"
        page = self.objects.page(request.bucket, query, self.page_size)
        contents = "".join(
            f'<Contents><Key>{escape(item["name"])}</Key><Size>{item["size"]}</Size><ETag>"etag-{item["generation"]}"</ETag>'
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for item in page.get("items", ())
        )
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if (token := page.get("nextPageToken")) else ""
        return (
            200,
            {"Content-Type": "application/xml"},
            f"<ListBucketResult>{contents}{more}</ListBucketResult>".encode(),
        )

    def _stat(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        if request.method == "HEAD":
            return self._get(request)
        return self._described(request, self.objects.get(request.bucket, request.name, request.query))

    def _get(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        found = self.objects.get(request.bucket, request.name, request.query)
        headers = {
            "Content-Type": "application/octet-stream",
            "ETag": f'"etag-{found.generation}"',
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            "x-goog-generation": str(found.generation),
            "x-goog-hash": f"crc32c={encode_crc(found.crc32c)}",
        }
        if found.encoding == "gzip":
            headers |= {"x-goog-stored-content-encoding": "gzip", "x-goog-stored-content-length": str(len(found.data))}
            if self.transcoding == "always" or "gzip" not in request.headers.get("accept-encoding", ""):
                del headers["ETag"]  # and no length, no range: the answer is made while it is sent
                return 200, {**headers, "Transfer-Encoding": "chunked"}, gzip.decompress(found.data)
            headers["Content-Encoding"] = "gzip"
            if self.transcoding == "streamed":
                headers["Transfer-Encoding"] = "chunked"
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        if span is None:
            return 200, headers, found.data
        start, end = int(span[1]), int(span[2] or len(found.data) - 1)
        if start >= len(found.data):
            raise Refusal(416, "The requested range cannot be satisfied.")
        body = found.data[start : end + 1]
        headers["Content-Range"] = f"bytes {start}-{start + len(body) - 1}/{len(found.data)}"
        return 206, headers, body

    def _upload(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        how = request.query.get("uploadType")
        if how == "media":
            return self._stored(request, request.name, request.body, None)
        if how == "multipart":
            described, data = multipart(request.headers, request.body)
            encoding = described.get("contentEncoding", "")
            return self._stored(request, request.name, data, described.get("crc32c"), encoding)
        self.objects.check_write(request.bucket, request.name, request.query)
        upload_id = f"upload-{len(self._uploads)}"
        self._uploads[upload_id] = (request, bytearray(), json.loads(request.body).get("crc32c"))
        where = f"{self.url}/upload/storage/v1/b/{request.bucket}/o?uploadType=resumable&upload_id={upload_id}"
        return 200, {"Location": where}, b""

    def _resume(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        started, data, claimed = self._uploads[request.query["upload_id"]]
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", request.headers["content-range"])
        if span is None or int(span[1]) != len(data):
            raise Refusal(400, f"unexpected Content-Range {request.headers['content-range']}, have {len(data)} bytes")
        data += request.body
        if span[3] == "*" or len(data) < int(span[3]):
            return 308, {"Range": f"bytes=0-{len(data) - 1}"}, b""
        sent = re.search(r"crc32c=([^,]+)", request.headers.get("x-goog-hash", ""))
        return self._stored(started, started.name, bytes(data), sent[1] if sent else claimed)

    def _compose(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        sources = json.loads(request.body)["sourceObjects"]
        return self._described(request, self.objects.compose(request.bucket, request.name, sources, request.query))

    def _delete(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        self.objects.delete(request.bucket, request.name, request.query)
        return 204, {}, b""

    def _stored(
        self, request: Request, name: str, data: bytes, claimed: str | None, encoding: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        made = self.objects.write(request.bucket, name, data, request.query, claimed, encoding)
        status, headers, body = _json(made.resource(request.bucket, name))
        return status, {**headers, "x-goog-hash": f"crc32c={encode_crc(made.crc32c)}"}, body

    def _described(self, request: Request, found: Object) -> tuple[int, dict[str, str], bytes]:
        return _json(found.resource(request.bucket, request.name))


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, gcs: StrictGCS) -> None:
        self.gcs = gcs
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that closes its connection is no error; a bug here shows as a failed request there


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.gcs.opened(self.connection)

    def finish(self) -> None:
        self.server.gcs.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = parse(self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body)
        fault = self.server.gcs.fault_for(request)
        effect = fault.effect if fault else None
        if fault and effect == "call":
            fault.action()
        try:
            if fault and effect == "status":
                raise Refusal(fault.status, fault.text)
            status, headers, answer = self.server.gcs.answer(request)
        except Refusal as refusal:
            error = {"code": refusal.status, "message": refusal.text, "errors": [{"reason": refusal.text}]}
            status, headers, answer = refusal.status, {}, json.dumps({"error": error}).encode()
        if effect == "lost_answer":
            return self._hang_up()
        length = len(answer)
        if effect == "corrupt" and answer:
            answer = bytes([answer[0] ^ 1]) + answer[1:]
        if effect == "short":
            answer, length = answer[: length // 2], length // 2
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if headers.get("Transfer-Encoding") == "chunked":
            answer = b"%x\r\n%s\r\n0\r\n\r\n" % (length, answer)
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer[: length // 2] if effect == "drop" else answer)
        self.wfile.flush()
        if effect == "drop":
            self._hang_up()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _json(value: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _only(page: dict[str, Any], fields: str | None) -> dict[str, Any]:
    """The page with these fields only: ``items(name,size),prefixes,nextPageToken``."""
    if fields is None:
        return page
    wanted = re.fullmatch(r"(?:items\(([a-zA-Z0-9,]+)\),?)?(.*)", fields)
    assert wanted is not None
    shown = {key: value for key, value in page.items() if key in wanted[2].split(",")}
    if wanted[1] and "items" in page:
        columns = wanted[1].split(",")
        shown["items"] = [{column: item[column] for column in columns} for item in page["items"]]
    return shown
