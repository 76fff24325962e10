"""A zip as an input root: its directory is read once per process, each member by one range.

Not ``zipfile``: it keeps 700 bytes per member, and its readers share one position and so wait for
each other, a round trip to a bucket each. What is kept here is the directory as it is in the file
(about 80 bytes per member), and where each member's entry is in it (16 bytes).

The version of a member is its CRC-32: a zip that was copied, or made again from the same files in
another order, is the same input. Layout: PKWARE's APPNOTE.TXT, 4.3.
"""

from __future__ import annotations

import stat as stat_module
import struct
import threading
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.errors import clip
from shardfeed.storage import Stat
from shardfeed.transforms.sources.archive import ArchiveSource
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, EntryKind, FileSource, Listed
from shardfeed.transforms.sources.doubles import Doubles

if TYPE_CHECKING:
    from numpy.typing import NDArray

_END = struct.Struct("<4s4H2LH")  # signature, disk, disk of directory, entries here, entries, size, offset, comment
_LOCATOR = struct.Struct("<4sLQL")  # signature, disk, offset of the 64-bit end, disks
_END64 = struct.Struct("<4sQ2H2L4Q")  # …, entries here, entries, size, offset
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_DIRECTORY = 2 << 30  # bytes; some 25 million members
_EXTRA_ROOM = 64  # bytes: the local header may have longer extra fields than the directory
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_UNIX = 3
_REPACK = "Make it again: cd photos; zip -r -0 ../photos.zip ."


@dataclass(frozen=True, slots=True)
class _Member:
    name: bytes
    flags: int
    method: int
    crc: int
    packed: int  # bytes in the archive
    size: int
    offset: int  # of the local header, as the directory says it
    made: int  # the system that made the archive
    mode: int  # of Unix; 0 if not known
    extra: int  # bytes
    end: int  # of the entry in the directory


class ZipSource(ArchiveSource):
    """A zip, local or in a bucket."""

    def __init__(self, url: str, folder: FileSource) -> None:
        super().__init__(url, folder)
        self._lock = threading.Lock()
        self._directory: bytes | None = None
        self._places: tuple[NDArray[Any], NDArray[Any]] | None = None

    def list(self, section: bytes) -> Iterator[Listed]:
        doubles = Doubles()
        for member in self._members():
            if member.flags & _ENCRYPTED:
                raise self.refused(f"is encrypted (member {clip(member.name)})", f"Unpack it. {_REPACK}")
            if member.method not in (_STORED, _DEFLATED):
                raise self.refused(
                    f"packs {clip(member.name)} by method {member.method}; read are 0 (stored) and 8 (deflated)",
                    f"Unpack it. {_REPACK}",
                )
            if member.name.endswith(b"/"):
                continue
            if b"\\" in member.name and member.made != _UNIX:  # there a name may hold one
                raise self.refused(
                    f"holds the name {clip(member.name)}: some programs of Windows write \\ for /, against the format",
                    f"Unpack it. {_REPACK}",
                )
            key = self.key_of(member.name)
            doubles.add(key)
            yield Listed(key, Stat(member.size, member.crc), _kind(member.mode))
        keys = (self.key_of(member.name) for member in self._members() if not member.name.endswith(b"/"))
        if (double := doubles.first(keys)) is not None:
            raise self.doubled(double)

    def read(self, key: bytes, stat: Stat) -> bytes:
        member = self._find(key)
        if member is None or (member.size, member.crc) != (stat.size, stat.version):
            raise ChangedError(f"{clip(self.url)}: {clip(key)} is gone or changed since the listing")
        if member.packed > 2 * member.size + 1024:  # deflating adds a few bytes per 16 kB at most
            raise ChecksumError(f"{clip(key)}: {member.packed:,} packed bytes for {member.size:,}: the zip is damaged")
        start = self._shift + member.offset
        head = _LOCAL.size + len(member.name)
        data = self.file().read(start, head + member.extra + _EXTRA_ROOM + member.packed)
        try:
            signature, *_, name_size, extra_size = _LOCAL.unpack_from(data)
        except struct.error:
            signature = b""
        if signature != b"PK\3\4" or data[_LOCAL.size : head] != member.name:
            raise ChecksumError(f"{clip(key)}: the zip is damaged: no member at byte {start:,}")
        begin = _LOCAL.size + name_size + extra_size
        packed = data[begin : begin + member.packed]
        if len(packed) < member.packed:  # a longer extra field than was asked for
            packed += self.file().read(start + begin + len(packed), member.packed - len(packed))
        return _unpacked(key, packed, member)

    def _members(self) -> Iterator[_Member]:
        return self._entries(self._read_directory())

    def _entries(self, directory: bytes) -> Iterator[_Member]:
        at = 0
        while at < len(directory):
            member = self._member(directory, at)
            yield member
            at = member.end

    def _member(self, directory: bytes, at: int) -> _Member:
        try:
            (
                signature, made, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, _, _,
                attributes, offset,
            ) = _ENTRY.unpack_from(directory, at)  # fmt: skip
        except struct.error:
            signature = b""
        if signature != b"PK\1\2" or at + _ENTRY.size + name_size + extra_size + comment_size > len(directory):
            raise self.refused(f"is damaged: byte {at:,} of its directory begins no entry", "Copy or make it again.")
        name_end = at + _ENTRY.size + name_size
        name, extra = directory[at + _ENTRY.size : name_end], directory[name_end : name_end + extra_size]
        wide = [value for value in (size, packed, offset) if value == 0xFFFFFFFF]
        if wide:
            values = iter(_zip64(extra, len(wide)))
            size, packed, offset = (next(values, v) if v == 0xFFFFFFFF else v for v in (size, packed, offset))
        made >>= 8
        mode = attributes >> 16 if made == _UNIX else 0
        end = name_end + extra_size + comment_size
        return _Member(name, flags, method, crc, packed, size, offset, made, mode, extra_size, end)

    def _read_directory(self) -> bytes:
        with self._lock:
            if self._directory is None:
                self._directory = self._fetch_directory()
            return self._directory

    def _fetch_directory(self) -> bytes:
        file, size = self.file(), self.file().stat.size
        tail_at = max(0, size - _END.size - 0xFFFF)
        tail = file.read(tail_at, size - tail_at)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < _END.size:
            raise self.refused(
                "is no zip, or its end is missing: it has no directory",
                "Copy or make it again; check it with: unzip -t",
            )
        _, disk, _, _, _, length, offset, _ = _END.unpack_from(tail, at)
        end = tail_at + at
        locator = file.read(end - _LOCATOR.size, _LOCATOR.size) if end >= _LOCATOR.size else b""
        if locator[:4] == b"PK\6\7":
            _, _, end64, _ = _LOCATOR.unpack(locator)
            wide = file.read(end64, _END64.size)
            if len(wide) < _END64.size or wide[:4] != b"PK\6\6":
                raise self.refused("is damaged: its 64-bit directory is not where it should be", "Make it again.")
            *_, length, offset = _END64.unpack(wide)
            end = end64
        elif disk not in (0, 0xFFFF):
            raise self.refused("is one of several volumes", f"Unpack all of them. {_REPACK}")
        self._shift = end - length - offset  # bytes before the zip, as in a self-extracting one
        if self._shift < 0 or length > _MAX_DIRECTORY:
            raise self.refused(
                f"is damaged or too large: a directory of {length:,} bytes at byte {offset:,}; at most {_MAX_DIRECTORY:,}",
                "Make several archives, and give one --input for each.",
            )
        directory = file.read(end - length, length)
        if len(directory) < length:
            raise self.refused("is damaged: its directory is cut", "Copy or make it again.")
        return directory

    def _find(self, key: bytes) -> _Member | None:
        import numpy as np

        directory = self._read_directory()
        with self._lock:
            if self._places is None:
                hashes, places, at = array("q"), array("q"), 0
                for member in self._entries(directory):
                    if not member.name.endswith(b"/"):
                        hashes.append(hash(self.key_of(member.name)))
                        places.append(at)
                    at = member.end
                order = np.argsort(np.asarray(hashes))
                self._places = np.asarray(hashes)[order], np.asarray(places)[order]
        hashed, where = self._places
        first = int(np.searchsorted(hashed, hash(key)))
        while first < len(hashed) and hashed[first] == hash(key):
            member = self._member(directory, int(where[first]))
            if self.key_of(member.name) == key:
                return member
            first += 1
        return None


def _zip64(extra: bytes, count: int) -> tuple[int, ...]:
    """The first ``count`` 64-bit values of the extra field that holds them."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            count = min(count, length // 8, (len(extra) - at - 4) // 8)
            return struct.unpack_from(f"<{count}Q", extra, at + 4)
        at += 4 + length
    return ()


def _kind(mode: int) -> EntryKind:
    kind = stat_module.S_IFMT(mode)
    return "file" if kind in (0, stat_module.S_IFREG) else "symlink" if kind == stat_module.S_IFLNK else "special"


def _unpacked(key: bytes, packed: bytes, member: _Member) -> bytes:
    """A member's bytes. Never more than the directory says, whatever the packed bytes unpack to."""
    data = packed
    if member.method == _DEFLATED:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
        except zlib.error as error:
            raise ChecksumError(f"{clip(key)}: cannot be unpacked: {error}") from error
    if len(data) != member.size:
        more = "more" if len(data) > member.size else "less"
        raise ChecksumError(f"{clip(key)}: unpacks to {more} than the {member.size:,} bytes that the zip promises")
    if (found := zlib.crc32(data)) != member.crc:
        raise ChecksumError(f"{clip(key)}: CRC-32 {found:08x}; the zip says {member.crc:08x}")
    return data
