"""What clients of GCS ask: the JSON API's addresses, and obstore's ``/bucket/name`` (XML API)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote

Kind = Literal["list", "stat", "get", "upload", "resume", "compose", "delete", "bucket", "unknown"]


@dataclass(frozen=True)
class Request:
    """One request. The ``name`` of an upload is that of the object it makes."""

    method: str
    kind: Kind
    bucket: str
    name: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]


def parse(method: str, target: str, headers: dict[str, str], body: bytes) -> Request:
    """What a request asks for; of kind "unknown" where it is nothing that we know."""
    path, _, rest = target.partition("?")
    query = dict(parse_qsl(rest, keep_blank_values=True, strict_parsing=bool(rest)))

    def made(kind: Kind, bucket: str = "", name: str = "") -> Request:
        return Request(method, kind, unquote(bucket), unquote(name), query, body, headers)

    if upload := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", path):
        if "upload_id" in query:
            return made("resume", upload[1])
        return made("upload", upload[1], quote(_upload_name(query, headers, body)))
    if found := re.fullmatch(r"/(?:download/)?storage/v1/b(?:/([^/]+))?", path):
        return made("bucket", found[1] or "")
    if found := re.fullmatch(r"/(?:download/)?storage/v1/b/([^/]+)/o", path):
        return made("list", found[1])
    if found := re.fullmatch(r"/(?:download/)?storage/v1/b/([^/]+)/o/([^/]+)(/compose)?", path):
        if found[3]:
            return made("compose", found[1], found[2])
        if method == "DELETE":
            return made("delete", found[1], found[2])
        return made("get" if query.get("alt") == "media" else "stat", found[1], found[2])
    if "list-type" in query and (found := re.fullmatch(r"/([^/]+)", path)):
        return made("list", found[1])
    kinds: dict[str, Kind] = {"GET": "get", "HEAD": "stat", "DELETE": "delete"}
    if method in kinds and (found := re.fullmatch(r"/([^/]+)/(.+)", path)):
        return made(kinds[method], found[1], found[2])
    return made("unknown", name=path)


def _upload_name(query: dict[str, str], headers: dict[str, str], body: bytes) -> str:
    how = query.get("uploadType")
    described = query if how == "media" else multipart(headers, body)[0] if how == "multipart" else json.loads(body)
    return str(described["name"])


def multipart(headers: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
    """Metadata and content of a multipart upload. E-mail parsers would change binary data."""
    found = re.search(r'boundary="?([^";]+)"?', headers["content-type"])
    assert found is not None, "multipart without a boundary"
    _, first, second, _ = body.split(b"--" + found[1].encode())
    metadata, data = (piece.split(b"\r\n\r\n", 1)[1][: -len(b"\r\n")] for piece in (first, second))
    return json.loads(metadata), data
