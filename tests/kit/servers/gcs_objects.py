"""What a bucket does, without HTTP: generations, preconditions, paged listings.

Stricter than any public emulator on purpose: a precondition that a client forgets, or an emulator
ignores, is how two builds overwrite each other.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfeed.format.checksums import crc32c

MAX_COMPOSE = 32
MAX_NAME = 1024  # bytes of UTF-8


class Refusal(Exception):
    """An answer other than success: HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True)
class Object:
    """One generation. ``crc32c``: of the listing, perhaps wrong. ``encoding``: Content-Encoding."""

    data: bytes
    generation: int
    crc32c: int
    encoding: str = ""

    def resource(self, bucket: str, name: str) -> dict[str, str]:
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(self.data)),
            "generation": str(self.generation),
            "metageneration": "1",
            "crc32c": encode_crc(self.crc32c),
            "etag": f"etag-{self.generation}",
            "contentType": "application/octet-stream",
            "updated": "2026-01-01T00:00:00.000Z",
        }


def encode_crc(value: int) -> str:
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def _generations() -> itertools.count[int]:
    return itertools.count(1_700_000_000_000_001)  # as big as real ones, so that a 32-bit field would show


@dataclass
class Objects:
    """Buckets by name, each a mapping from object name to its live generation."""

    buckets: dict[str, dict[str, Object]] = field(default_factory=dict)
    generations: itertools.count[int] = field(default_factory=_generations)

    def put(self, bucket: str, name: str, data: bytes, encoding: str = "") -> Object:
        """Unconditional write, for tests' own use."""
        made = Object(data, next(self.generations), crc32c(data), encoding)
        self.buckets.setdefault(bucket, {})[name] = made
        return made

    def bucket(self, name: str) -> dict[str, Object]:
        if name not in self.buckets:
            raise Refusal(404, "The specified bucket does not exist.")
        return self.buckets[name]

    def get(self, bucket: str, name: str, query: Mapping[str, str]) -> Object:
        found = self.bucket(bucket).get(name)
        if found is None or query.get("generation", str(found.generation)) != str(found.generation):
            raise Refusal(404, f"No such object: {bucket}/{name}")
        _check(found, query)
        return found

    def check_write(self, bucket: str, name: str, query: Mapping[str, str]) -> None:
        """Refuses a write that could overwrite something, which Google would do."""
        if "ifGenerationMatch" not in query:
            raise Refusal(428, f"a write of {name!r} without ifGenerationMatch")
        if not name or name in (".", "..") or len(name.encode()) > MAX_NAME or "\r" in name or "\n" in name:
            raise Refusal(400, f"Invalid object name: {name!r}")
        _check(self.bucket(bucket).get(name), query)

    def write(
        self,
        bucket: str,
        name: str,
        data: bytes,
        query: Mapping[str, str],
        claimed_crc: str | None,
        encoding: str = "",
    ) -> Object:
        self.check_write(bucket, name, query)
        found = encode_crc(crc32c(data))
        if claimed_crc not in (None, found):
            raise Refusal(400, f'Provided CRC32C "{claimed_crc}" doesn\'t match calculated CRC32C "{found}".')
        return self.put(bucket, name, data, encoding)

    def compose(self, bucket: str, name: str, sources: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> Object:
        if not 1 <= len(sources) <= MAX_COMPOSE:
            raise Refusal(400, f"The number of source components provided ({len(sources)}) is not 1 to {MAX_COMPOSE}.")
        pieces = []
        for source in sources:
            wanted = {"generation": str(source["generation"])} if source.get("generation") is not None else {}
            if "objectPreconditions" in source:
                wanted["ifGenerationMatch"] = str(source["objectPreconditions"]["ifGenerationMatch"])
            pieces.append(self.get(bucket, source["name"], wanted).data)
        return self.write(bucket, name, b"".join(pieces), query, None)

    def delete(self, bucket: str, name: str, query: Mapping[str, str]) -> None:
        self.get(bucket, name, query)
        del self.bucket(bucket)[name]

    def page(self, bucket: str, query: Mapping[str, str], page_size: int) -> dict[str, Any]:
        """One page of ``objects.list``: names in order and, with a delimiter, "folders"."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        entries: dict[str, bool] = {}  # name or folder -> is a folder
        for name in sorted(self.bucket(bucket), key=str.encode):
            if not name.startswith(prefix) or name < query.get("startOffset", ""):
                continue
            if "endOffset" in query and name >= query["endOffset"]:
                continue
            head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            entries[prefix + head + found if found else name] = bool(found)
        after = base64.b64decode(query.get("pageToken", "")).decode()
        left = [entry for entry in entries if entry.encode() > after.encode()]
        size = min(int(query.get("maxResults", page_size)), page_size)
        answer: dict[str, Any] = {"kind": "storage#objects"}
        shown = left[:size]
        items = [self.bucket(bucket)[entry].resource(bucket, entry) for entry in shown if not entries[entry]]
        folders = [entry for entry in shown if entries[entry]]
        if items:  # Google leaves empty fields out
            answer["items"] = items
        if folders:
            answer["prefixes"] = folders
        if len(left) > size:
            answer["nextPageToken"] = base64.b64encode(shown[-1].encode()).decode()
        return answer


def _check(found: Object | None, query: Mapping[str, str]) -> None:
    generation = str(found.generation) if found else "0"
    if query.get("ifGenerationMatch", generation) != generation:
        raise Refusal(412, f"ifGenerationMatch={query['ifGenerationMatch']}, but the generation is {generation}.")
    if query.get("ifGenerationNotMatch") == generation:
        raise Refusal(304, "")
