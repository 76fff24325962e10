"""A list as an input: a text file, CSV or Parquet that names the images.

Keys are paths below the list's root: the folder of the list, or ``--list_root``. They do not depend
on the other rows, as paths below the longest common folder would: one more row could then change
every key, and with it every image's split and class.

A list is read in a stream, twice per section: once to see whether rows are doubled (8 bytes of
memory per row), once to look at each file. There are sections because a worker needs a share of a
long list; a row's section follows from the name of its file, so equal rows meet.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage import Stat
from shardfeed.transforms.images.suffixes import IMAGE_SUFFIXES
from shardfeed.transforms.inputs.roots import InputList, InputRoot
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.sources import open_files, open_source
from shardfeed.transforms.sources.archive import UNSAFE_PATH
from shardfeed.transforms.sources.base import Listed, Source
from shardfeed.transforms.sources.doubles import Doubles
from shardfeed.transforms.sources.range_file import File

# Bytes of a list per section. In a bucket 250,000 rows: sections are looked at side by side. On a
# disk as many as may cost some 30 MB of memory.
_SECTION_BYTES, _SECTION_BYTES_ON_DISK = 16 << 20, 256 << 20
_MOST_SECTIONS = 64  # each reads the whole list
_PARQUET_PACKS = 4  # bytes of text per byte of a file, about
_MOST_LINE = 70_000  # bytes; a key has at most 65,535
_LOOKS = 64  # files that a thread looks at before it takes the next ones
_AT_A_TIME = 64 * _LOOKS
_DISK_THREADS = 4  # hide the answers of a network drive


def open_root(root: InputRoot) -> Source:
    """The source of a root; of lists, if it has any."""
    return ListSource(root) if root.lists else open_source(root.url)


class ListSource(Source):
    """The files of a root that its lists name."""

    def __init__(self, root: InputRoot) -> None:
        self.url = root.url
        self._lists = root.lists
        self._files = open_files(root.url)

    def check(self) -> None:
        for found in self._lists:
            next(_rows(found), None)

    def sections(self) -> list[bytes]:
        self.check()
        size = sum(_open(found).stat.size * (_PARQUET_PACKS if _is_parquet(found) else 1) for found in self._lists)
        most = _SECTION_BYTES if storage.is_remote(self.url) else _SECTION_BYTES_ON_DISK
        count = min(1 + size // most, _MOST_SECTIONS)
        return [b"%d/%d" % (number, count) for number in range(count)]

    def list(self, section: bytes) -> Iterator[Listed]:
        number, count = map(int, section.split(b"/"))
        doubles = Doubles()
        for key in self._keys(number, count):
            doubles.add(key)
        keys = _once(self._keys(number, count), doubles.hashes())
        while some := list(islice(keys, _AT_A_TIME)):
            pieces = [some[at : at + _LOOKS] for at in range(0, len(some), _LOOKS)]
            for found in side_by_side(self.url, self._look, pieces, on_disk=_DISK_THREADS):
                yield from found

    def read(self, key: bytes, stat: Stat) -> bytes:
        return self._files.read(key, stat)

    def _look(self, keys: Iterable[bytes]) -> Sequence[Listed]:
        return [self._find(key) or Listed(key, Stat(0, 0), "missing") for key in keys]

    def _find(self, key: bytes) -> Listed | None:
        try:
            return self._files.find(key)
        except UnicodeDecodeError:  # a bucket holds no such name
            return None

    def _keys(self, number: int, count: int) -> Iterator[bytes]:
        for found in self._lists:
            roots = [f"{root.rstrip('/')}/".encode("utf-8", "surrogateescape") for root in (found.prefix, self.url)]
            for row, name in _rows(found):
                # The last part is the same in every spelling of a key, and quickly found.
                if count == 1 or zlib.crc32(name[name.rfind(b"/") + 1 :]) % count == number:
                    yield _key_of(name, roots, found, row)


def _once(keys: Iterable[bytes], suspects: frozenset[int]) -> Iterator[bytes]:
    seen = set[bytes]()
    for key in keys:
        if hash(key) in suspects:
            if key in seen:
                continue
            seen.add(key)
        yield key


def _key_of(name: bytes, roots: Iterable[bytes], found: InputList, row: int) -> bytes:
    for root in roots:
        if name.startswith(root):
            key = name[len(root) :]
            break
    else:
        key = name[2:] if name.startswith(b"./") else name
        if key.startswith(b"/") or b"://" in key:
            above = name.rsplit(b"/", 2)[0] or b"/"
            raise UsageError(
                f"{clip(found.url)}, row {row:,}: {clip(name)} does not lie below {clip(found.prefix)}, the root of the list. "
                f"Give the folder that holds one folder per class: --list_root {clip(above)}"
            )
    if UNSAFE_PATH.search(key):
        raise UsageError(
            f"{clip(found.url)}, row {row:,}: {clip(name)} is no path of a file below the root: it has an empty part, . or .. . "
            "Write the path without them."
        )
    return key


def _open(found: InputList) -> File:
    folder, _, name = found.url.rpartition("/")
    return File(open_files(folder or "/"), name)


def _is_parquet(found: InputList) -> bool:
    return found.url.lower().endswith(".parquet")


def _rows(found: InputList) -> Iterator[tuple[int, bytes]]:
    """(number, name) of each row that is not empty; numbers count as an editor's lines do."""
    with _open(found).open() as file:
        if _is_parquet(found):
            yield from _parquet_rows(file, found)
        elif found.url.lower().endswith(".csv"):
            yield from _csv_rows(file, found)
        else:
            yield from _text_rows(file, found)


def _text_rows(file: io.BufferedReader, found: InputList) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(_MOST_LINE):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in line or len(line) == _MOST_LINE:
            raise UsageError(
                f"--input @{clip(found.url)}: row {number:,} is no path: {clip(line)}. Expected is UTF-8 text, a path or address "
                "of an image per line; or a name that ends in .csv or .parquet."
            )
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _csv_rows(file: io.BufferedReader, found: InputList) -> Iterator[tuple[int, bytes]]:
    reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline=""))
    try:
        header = next(reader, [])
        at = _column(header, found)
        for row in reader:
            if len(row) <= at and row:
                raise UsageError(
                    f"{clip(found.url)}, row {reader.line_num:,}: it has no column {clip(repr(header[at]))}. Complete the row."
                )
            if row and row[at]:
                yield reader.line_num, row[at].encode("utf-8", "surrogateescape")
    except csv.Error as error:
        raise UsageError(
            f"--input @{clip(found.url)} is no CSV: row {reader.line_num:,}: {error}. Correct the file, or give a .txt."
        ) from error


def _parquet_rows(file: io.BufferedReader, found: InputList) -> Iterator[tuple[int, bytes]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        names = table.schema_arrow.names
        at = _column(names, found)
        kind = table.schema_arrow.field(at).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind  # a category of pandas
        if not any(is_text(values) for is_text in (pa.types.is_string, pa.types.is_large_string)):
            raise UsageError(
                f"--input @{clip(found.url)}: column {names[at]!r} is of type {kind}; expected is string. Name another column: "
                f"@{clip(found.url)}:COLUMN. There are: {clip(', '.join(names), 200)}"
            )
        number = 0
        for batch in table.iter_batches(columns=[names[at]]):
            column = batch.schema.names.index(names[at])  # not always 0: a.b is also the field b of a struct a
            for name in batch.column(column).to_pylist():
                number += 1
                if name:
                    yield number, name.encode()
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"--input @{clip(found.url)} is no Parquet file, or damaged: {clip(error).rstrip('.')}. Write or copy it anew."
        ) from error


def _column(names: list[str], found: InputList) -> int:
    """Number of the column that names the images."""
    if found.column:
        if names.count(found.column) == 1:
            return names.index(found.column)
        many = "more than one column" if found.column in names else "no column"
        raise UsageError(
            f"--input @{clip(found.url)} has {many} {clip(found.column)!r}. There are: {clip(', '.join(names), 200)}"
        )
    if not names:
        raise UsageError(f"--input @{clip(found.url)} is empty: a table has a row of names and a row per image.")
    suffixes = tuple(suffix.decode() for suffix in IMAGE_SUFFIXES)
    if image := next((name for name in names if name.lower().endswith(suffixes)), ""):
        raise UsageError(
            f"--input @{clip(found.url)}: its first row holds {clip(image)}, which looks like an image. A CSV has a row of "
            "names first; a list without it ends in .txt."
        )
    return 0
