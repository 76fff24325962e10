"""A plain tar as an input root: located in one pass over its headers, then read by ranges.

A tar has no directory. So the place of a member travels with its reference: the version of a member
is its place (33 bits, in blocks of 512 bytes) and 30 bits of the version of the archive. No process
but the one that lists needs the headers, and an archive that changes meanwhile is noticed.

A packed tar (``.tar.gz``, ``.tgz`` …) can only be read from its beginning. Each process of a build
would have to unpack all of it to reach its share, so it is refused. Images do not shrink by gzip.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from shardfeed.errors import clip
from shardfeed.format.checksums import crc32c
from shardfeed.storage import Stat
from shardfeed.transforms.sources.archive import ArchiveSource
from shardfeed.transforms.sources.base import ChangedError, EntryKind, Listed
from shardfeed.transforms.sources.doubles import Doubles

_BLOCK = 512
_VERSION_BITS = 30


class TarSource(ArchiveSource):
    """A tar that is not packed, local or in a bucket."""

    def list(self, section: bytes) -> Iterator[Listed]:
        doubles = Doubles()
        for listed in self._members():
            doubles.add(listed.key)
            yield listed
        if (double := doubles.first(listed.key for listed in self._members())) is not None:
            raise self.doubled(double)

    def read(self, key: bytes, stat: Stat) -> bytes:
        block, version = divmod(stat.version, 1 << _VERSION_BITS)
        if version != self._version():
            raise ChangedError(f"{clip(self.url)} changed since the listing, and with it {clip(key)}")
        data = self.file().read(block * _BLOCK, stat.size)
        if len(data) < stat.size:
            raise ChangedError(f"{clip(self.url)} ends inside of {clip(key)}")
        return data

    def _members(self) -> Iterator[Listed]:
        version = self._version()
        try:
            with tarfile.open(fileobj=self.file().open(), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
                while (member := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps all, about 1 kB each
                    if member.isdir():
                        continue
                    if member.offset_data + member.size > self.file().stat.size:
                        raise tarfile.ReadError(f"it ends inside of {clip(member.name)}")
                    place = member.offset_data // _BLOCK
                    key = self.key_of(member.name.encode("utf-8", "surrogateescape"))
                    yield Listed(key, Stat(member.size, place << _VERSION_BITS | version), _kind(member))
                # tarfile takes a header that it cannot read, and the end of the file, for the end of the archive.
                if self.file().read(tar.offset, _BLOCK) != bytes(_BLOCK):
                    raise tarfile.ReadError(f"no header and no end at byte {tar.offset:,}")
        except tarfile.TarError as error:
            raise self.refused(
                f"is no tar, or it is damaged: {error}", "Copy or make it again; check it with: tar -tf"
            ) from error

    def _version(self) -> int:
        return crc32c(b"%d %d" % (self.file().stat.size, self.file().stat.version)) >> (32 - _VERSION_BITS)


def _kind(member: tarfile.TarInfo) -> EntryKind:
    if member.issym() or member.islnk():
        return "symlink"
    return "file" if member.isreg() and not member.issparse() else "special"
