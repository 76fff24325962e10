"""Builds from and to buckets in processes of their own, which know only a GCS server's address.

The processes find no credentials and cannot leave the machine. Google's client libraries look for a
metadata server if they find no key file, and wait for it: that costs minutes on a laptop, and in a
test nobody sees why. So each process gets an empty home, and hooks can trap or note connections.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardfeed.format.example import decode_example
from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.hooks import appender, parts_a_shard, put
from tests.kit.servers.strict_gcs import StrictGCS

IN, OUT = "gs://photos/in", "gs://data/out"


@contextmanager
def photo_server(photos: Path) -> Iterator[StrictGCS]:
    """Our own server: the photos below ``IN``, an empty bucket for ``OUT``, 3 names per page."""
    with StrictGCS(page_size=3) as strict:
        for name, data in tree(photos).items():
            strict.objects.put("photos", f"in/{name}", data)
        strict.objects.buckets["data"] = {}
        yield strict


def output(server: StrictGCS) -> dict[str, bytes]:
    """Everything below ``OUT``, leftovers included."""
    return {name.removeprefix("out/"): found.data for name, found in server.objects.buckets["data"].items()}


def published(server: StrictGCS) -> dict[str, str]:
    """Digests of everything below ``OUT``, leftovers included."""
    return digests(output(server))


@dataclass(frozen=True)
class Cloud:
    """A GCS server at ``endpoint``, and an empty folder that processes take for home."""

    endpoint: str
    home: Path

    def run(self, *argv: str, hooks: Iterable[Callable[[], None]] = (), env: Mapping[str, str] | None = None) -> Ended:
        """One command, without waiting between its attempts."""
        surroundings = {
            "STORAGE_EMULATOR_HOST": self.endpoint,
            "HOME": str(self.home),
            "GOOGLE_APPLICATION_CREDENTIALS": "",
            **(env or {}),
        }
        return builds.run(*argv, hooks=[no_pauses, *hooks], env=surroundings)

    def build(
        self, source: str | Path, out: str | Path, *flags: str, hooks: Iterable[Callable[[], None]] = ()
    ) -> Ended:
        """One build of tiny images."""
        return self.run(*build_args(source, out, *flags), hooks=hooks)

    def built(
        self, source: str | Path, out: str | Path, *flags: str, hooks: Iterable[Callable[[], None]] = ()
    ) -> Ended:
        """A build that has to succeed."""
        ended = self.build(source, out, *flags, hooks=hooks)
        assert ended.code == 0, ended.err
        return ended


def build_args(source: str | Path, out: str | Path, *flags: str) -> tuple[str, ...]:
    """``build`` of tiny images; a flag given again in ``flags`` wins."""
    return ("build", "--input", str(source), "--output", str(out), "--image_size", "16", "--threads", "2", *flags)


def digests(objects: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of every object but ``run.json``, which alone may differ between builds."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in objects.items() if name != "run.json"}


def tree(folder: Path) -> dict[str, bytes]:
    """Content of every file below ``folder``."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def records(objects: Mapping[str, bytes]) -> dict[bytes, dict[str, list[Any]]]:
    """Features by key of all records of a dataset's shards, found by their indexes."""
    found: dict[bytes, dict[str, list[Any]]] = {}
    for name, data in objects.items():
        if name.endswith(".tfrecord"):
            for line in objects[name + ".idx"].decode().splitlines():
                offset, size = map(int, line.split())
                features: dict[str, list[Any]] = decode_example(data[offset + 12 : offset + size - 4])
                assert features["key"][0] not in found, "a key twice"
                found[features["key"][0]] = features
    return found


def comparable(manifest: bytes) -> dict[str, Any]:
    """A manifest without what follows from the versions of the listed files."""
    raw: dict[str, Any] = json.loads(manifest)
    del raw["fingerprint"], raw["listing"]["digest"]
    for table in raw["tables"]:
        del table["digest"]
    for file in raw["files"]:
        if file["file"].endswith((".index", ".classes")):  # the fingerprint is in them
            del file["crc32c"]
    return raw


# ---- hooks: what a process does to itself before it begins


def no_pauses() -> None:
    """Attempts follow each other at once."""
    from shardfeed.storage import retry

    put(retry, "sleep", lambda _seconds: None)


def few_parts() -> None:
    """Five parts a shard."""
    parts_a_shard(5)


def one_part() -> None:
    """All of a split in one part, however large."""
    from shardfeed.transforms.planning import plan

    parts_a_shard(1)
    put(plan, "PART_BYTES", 1 << 30)


def write_pid(path: Path) -> None:
    """Who to kill."""
    path.write_text(str(os.getpid()))


def note_connections(log: Path) -> None:
    """Logs every address outside of this machine that Python connects to or looks up."""
    write = appender(log)

    def hear(event: str, args: tuple[Any, ...]) -> None:
        address = args[1] if event == "socket.connect" else args[0] if event == "socket.getaddrinfo" else None
        host = address[0] if isinstance(address, tuple) else address
        if event.startswith("socket.") and isinstance(host, str) and host not in ("127.0.0.1", "localhost", "::1"):
            write(f"{event} {host}\n".encode())

    sys.addaudithook(hear)
