"""A part's files: the records, named by their content, and the sidecar that commits them.

The sidecar is a line of canonical JSON, then the packed rows of the part's records, closed by its
own crc32c. It is created after the part file, so it exists only for finished parts. If two runs
create it at once, the loser reads the winner's. Torn files under ``_parts/`` heal: a file that does
not match its name or its crc is deleted and written again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from shardfeed.errors import IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import canonical_json
from shardfeed.storage import NotFoundError
from shardfeed.transforms.elements import PartFile, PartResult
from shardfeed.transforms.output.part_rows import ROW_BYTES, PartRows
from shardfeed.transforms.stores.base import WritableStore

_TRIES = 5  # times that a race is lost for a file which is gone when looked at


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What the sidecar file of a finished part holds.

    ``rows``: of each record, in order. ``rejects``: (key as shown, reason, detail) in (hash, key)
    order.
    """

    result: PartResult
    rows: PartRows
    rejects: tuple[tuple[str, str, str], ...]
    versions: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """Bytes of the sidecar file."""
        rows = self.rows
        extras = {"extras": len(rows.extras)} if rows.extras else {}
        head = canonical_json({"result": self.result, "rejects": self.rejects, "versions": self.versions, **extras})
        body = b"".join((head, rows.fixed, rows.keys, rows.extras))
        return body + to_hex(crc32c(body)).encode() + b"\n"


def parse_sidecar(data: bytes) -> Sidecar | None:
    """The sidecar in ``data``; None if it is torn."""
    body, tail = data[:-9], data[-9:]
    if tail != to_hex(crc32c(body)).encode() + b"\n":
        return None
    rows = body.index(b"\n") + 1  # canonical JSON has no other
    raw = json.loads(body[:rows])
    result = PartResult.from_raw(raw["result"])
    keys = rows + result.records * ROW_BYTES
    extras = len(body) - raw.get("extras", 0)
    return Sidecar(
        result,
        PartRows(body[rows:keys], body[keys:extras], body[extras:]),
        tuple((key, reason, detail) for key, reason, detail in raw["rejects"]),
        raw["versions"],
    )


def file_of(fingerprint: str, split: str, part: PartResult | PartFile) -> str:
    """Name of a part's records."""
    return naming.part_name(fingerprint, split, part.part, part.crc32c, part.bytes)


def find_part(store: WritableStore, fingerprint: str, split: str, part: int) -> Sidecar | None:
    """A part that was finished before, checked; None if there is none, which costs one request.

    Torn files are deleted.
    """
    sidecar = read_sidecar(store, fingerprint, split, part)
    if sidecar is None or not sidecar.result.records:
        return sidecar
    name = file_of(fingerprint, split, sidecar.result)
    return sidecar if _is_whole(store, name, sidecar.result.bytes, sidecar.result.crc32c) else None


def read_sidecar(store: WritableStore, fingerprint: str, split: str, part: int) -> Sidecar | None:
    """A part's sidecar; None if there is none. A torn one is deleted."""
    name = naming.sidecar_name(fingerprint, split, part)
    try:
        # It may have been torn on the way; ``read`` finds that out.
        sidecar = parse_sidecar(store.read_sealed(name)) or parse_sidecar(store.read(name))
    except NotFoundError:
        return None
    if sidecar is None and (torn := store.stat(name)) is not None:
        store.delete(name, torn.version)
    return sidecar


def commit_part(store: WritableStore, fingerprint: str, sidecar: Sidecar, records: bytes) -> PartResult:
    """Writes a part and its sidecar; gives the winner's result if another attempt was first."""
    result = sidecar.result
    if result.records:
        put_whole(store, file_of(fingerprint, result.split, result), records, result.crc32c)
    name, data = naming.sidecar_name(fingerprint, result.split, result.part), sidecar.to_bytes()
    for _ in range(_TRIES):
        if store.create(name, data):
            return result
        if winner := read_sidecar(store, fingerprint, result.split, result.part):
            return winner.result
    raise IncompleteError(
        f"{store.url}/{name} appears and vanishes; is another build sweeping here? Rerun the same command."
    )


def put_whole(store: WritableStore, name: str, data: bytes, crc: int) -> None:
    """Writes a file below ``_parts/``, whose crc32c is ``crc``; a torn one of that name heals.

    Raises:
        IncompleteError: it is not whole after several tries.
    """
    for _ in range(_TRIES):
        if store.create(name, data) or _is_whole(store, name, len(data), crc):
            return
    raise IncompleteError(f"{store.url}/{name} cannot be written whole; check the store, then rerun the same command.")


def _is_whole(store: WritableStore, name: str, size: int, crc: int) -> bool:
    """Whether a file below ``_parts/`` is there and whole. A torn one is deleted."""
    with contextlib.suppress(NotFoundError):
        torn = store.stat(name)  # before it is read: another run may write it whole meanwhile
        if store.checksum(name) == (size, crc):
            return True
        if torn is not None:
            store.delete(name, torn.version)
    return False
