"""A published file made of stored pieces, without reading them.

Its crc32c is computed from its pieces', and the store's file must have it. A file that is there
already (from an earlier attempt or a joined build) is checked and kept. This is looked at first:
its pieces may be swept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.storage import NotFoundError
from shardfeed.transforms.elements import FileResult
from shardfeed.transforms.stores.base import WritableStore

_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored file, and what it holds: bytes and their crc32c."""

    name: str
    bytes: int
    crc32c: int


def publish_concatenation(store: WritableStore, fingerprint: str, name: str, pieces: Sequence[Piece]) -> FileResult:
    """Publishes ``pieces``, one behind the other, as ``name``.

    Raises:
        ConflictError: another file has the name.
        IncompleteError: a piece is gone.
    """
    size = sum(piece.bytes for piece in pieces)
    crc = crc32c_of_concatenation((piece.crc32c, piece.bytes) for piece in pieces)
    if not _is_there(store, name, size, crc):
        scratch = f"{naming.work_folder(fingerprint)}/compose/{name}"
        try:
            store.compose(name, [piece.name for piece in pieces], scratch=scratch)
        except NotFoundError as error:
            if not _is_there(store, name, size, crc):
                raise IncompleteError(f"a part of {name} is gone ({error}). Rerun the same command.") from None
        if not _is_there(store, name, size, crc):
            raise IncompleteError(f"{store.url}/{name} is not there after composing. Rerun the same command.")
    return FileResult(name, size, crc)


def crc32c_of_concatenation(pieces: Iterable[tuple[int, int]]) -> int:
    """CRC-32C of a concatenation from its pieces' (crc32c, size in bytes), in order."""
    crc = 0
    for piece, size in pieces:
        # A CRC is linear: data that follows changes an earlier CRC as zeros of its length would.
        crc = _over_zeros(crc, size) ^ _over_zeros(0, size) ^ piece
    return crc


def _over_zeros(crc: int, size: int) -> int:
    """CRC-32C of bytes whose CRC-32C is ``crc``, followed by ``size`` zeros; 35 us per MiB."""
    for _ in range(size // len(_ZEROS)):
        crc = crc32c(_ZEROS, crc)
    return crc32c(_ZEROS[: size % len(_ZEROS)], crc)


def _is_there(store: WritableStore, name: str, size: int, crc: int) -> bool:
    try:
        found = store.checksum(name)
    except NotFoundError:
        return False
    if found == (size, crc):
        return True
    raise ConflictError(
        f"{store.url}/{name} exists with {found[0]} bytes, crc32c {found[1]:08x}; this build makes {size} bytes, {crc:08x}. "
        "Something else wrote it. Remove the unfinished build with --discard_incomplete, or give another --output."
    )
