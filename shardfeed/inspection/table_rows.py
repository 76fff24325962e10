"""The rows of record tables, shard by shard, compared with the manifest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.hashing import MASK128
from shardfeed.format.manifest import RecordTable, Shard
from shardfeed.format.record_table import batch_digest, read_batches
from shardfeed.storage.stored_file import open_whole
from shardfeed.verification.report import damaged

if TYPE_CHECKING:
    import pyarrow as pa

_AHEAD = 8  # tables that are read from a bucket at a time: a request waits about 50 ms


def table_rows(dataset: DatasetInfo, shards: Sequence[Shard]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of each shard's table, in the order of ``shards``, a row group at a time.

    ``dataset`` must have tables. Rows are compared with the manifest when all of a table are read.

    Raises:
        DatasetError: while reading rows: their table is absent, damaged, or not the one of the
            manifest.
        StorageError: the store kept failing.
    """
    tables = {table.file: table for table in dataset.manifest.tables}
    store = storage.open_store(dataset.url)
    named = [(shard, tables[naming.table_name(shard.file)]) for shard in shards]
    if not storage.is_remote(dataset.url):
        for shard, table in named:
            yield _rows(dataset, shard, table, partial(open_whole, store, table.file))
        return
    with ThreadPoolExecutor(_AHEAD, "shardfeed-tables") as pool:
        asked = ((*each, pool.submit(open_whole, store, each[1].file)) for each in named)
        ahead = deque(islice(asked, _AHEAD))
        while ahead:
            shard, table, file = ahead.popleft()
            yield _rows(dataset, shard, table, file.result)
            ahead.extend(islice(asked, 1))


def _rows(
    dataset: DatasetInfo, shard: Shard, table: RecordTable, opened: Callable[[], BinaryIO]
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard's ``table``, which ``opened`` gives as a file."""
    rows, digest = 0, 0
    try:
        with opened() as file:
            for batch in read_batches(file, dataset.manifest.label_kind):
                rows, digest = rows + len(batch), (digest + batch_digest(batch)) & MASK128
                yield batch
    except storage.NotFoundError:
        raise damaged(dataset.url, table.file, "it is not there") from None
    except storage.UnreadableError:  # which is a ValueError
        raise
    except ValueError as error:
        raise damaged(dataset.url, table.file, clip(error)) from None
    if rows != shard.records:
        raise damaged(dataset.url, table.file, f"it has {rows:,} rows, and {shard.file} has {shard.records:,} records")
    if f"{digest:032x}" != table.digest:
        what = f"its rows have the digest {digest:032x}, in the manifest it is {table.digest}"
        raise damaged(dataset.url, table.file, what)
