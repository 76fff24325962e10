"""The join in one process: buckets in two files without a name, matched one after the other.

The files are on the disk of the output, because a system's temporary folder is often memory. They
have no name, so a build that is killed leaves nothing behind, and a plan writes nothing. Small
inputs never reach the disk.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from shardfeed import storage
from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.metadata.join import BUCKETS, match_bucket, refs_by_bucket, table_in_buckets, without_refs
from shardfeed.transforms.metadata.table import MetadataTable

_RUN = 32 << 20  # bytes of a side that wait in memory: some 32 kB per bucket, so that reading seeks rarely


def join_here(
    batches: Iterable[RefBatch], table: MetadataTable | None, output: str, check: Callable[[], None] = lambda: None
) -> Iterator[RefBatch]:
    """The batches of a listing with rows of the table; without a table as they are.

    The table is read first, because an error in it needs no listing. ``output``: where the build
    writes. ``check`` is called now and then; it raises to end the join.

    Raises:
        UsageError: the table cannot be read.
    """
    if table is None:
        yield from batches
        return
    with contextlib.closing(_Buckets(output)) as rows, contextlib.closing(_Buckets(output)) as refs:
        for some in table_in_buckets(table, check):
            rows.add(some)
        for batch in batches:
            refs.add(refs_by_bucket(batch))
            yield without_refs(batch)
        for bucket in range(BUCKETS):
            check()
            yield from match_bucket(refs.of(bucket), rows.of(bucket))


class _Buckets:
    """Bytes by bucket, in memory as long as they are few, then in runs of a file.

    A run holds what has come since the run before, bucket by bucket. All buckets are written at
    once: buffers that grow and are emptied one by one leave holes in memory (60 MB at a million
    rows).
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._waiting: list[dict[int, bytes]] = []
        self._bytes = 0  # that wait
        self._runs: list[array[int]] = []  # where each bucket begins in the file, and the end of the last one
        self._file: IO[bytes] | None = None

    def add(self, by_bucket: dict[int, bytes]) -> None:
        self._waiting.append(by_bucket)
        self._bytes += sum(map(len, by_bucket.values()))
        if self._bytes >= _RUN:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=_folder(self._output))  # noqa: SIM115 (see close)
        starts = array("Q", [self._runs[-1][-1] if self._runs else 0])
        for bucket in range(BUCKETS):
            data = b"".join(some.pop(bucket, b"") for some in self._waiting)
            self._file.write(data)
            starts.append(starts[-1] + len(data))
        self._runs.append(starts)
        self._waiting, self._bytes = [], 0

    def of(self, bucket: int) -> Iterator[bytes]:
        """The pieces of a bucket, whole references or rows; those in memory are given up."""
        for starts in self._runs:
            assert self._file is not None
            self._file.seek(starts[bucket])
            yield self._file.read(starts[bucket + 1] - starts[bucket])
        for some in self._waiting:
            yield some.pop(bucket, b"")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _folder(output: str) -> str | None:
    """The output's folder or the closest one above it that is there; None: the system's choice."""
    if storage.is_remote(output):
        return None
    folder = output
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder if os.access(folder, os.W_OK) else None
