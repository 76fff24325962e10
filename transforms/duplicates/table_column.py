"""The column of the record tables that says to which group of duplicates a record belongs."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

import numpy as np

from shardfeed.errors import IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.storage import NotFoundError
from shardfeed.transforms import stores
from shardfeed.transforms.duplicates.find import MEMBER
from shardfeed.transforms.elements import Duplicates, Plan, ShardPlan
from shardfeed.transforms.output.claim import refuse_published

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READING = threading.Lock()


def duplicate_column(url: str, plan: Plan, shard: ShardPlan, found: Duplicates) -> NDArray[np.int32]:
    """The number of its group for each record of a shard, -1 for none.

    Raises:
        AlreadyBuiltError: this dataset was published meanwhile.
        IncompleteError: the groups are gone.
    """
    first, size = 0, sum(part.records for part in shard.parts)
    column = np.full(size, -1, np.int32)
    if not found.groups_bytes:
        return column
    with _READING:  # shards are composed side by side; one of them reads
        table = _members(url, plan.fingerprint, found.groups_bytes, found.groups_crc32c)
    own = table[table["split"] == sorted(plan.splits).index(shard.split)]
    for part in shard.parts:
        begin, end = np.searchsorted(own["part"], [part.part, part.part + 1])
        column[first + own["row"][begin:end].astype(np.int64)] = own["group"][begin:end]
        first += part.records
    return column


@functools.lru_cache(maxsize=1)
def _members(url: str, fingerprint: str, size: int, crc: int) -> NDArray[np.void]:
    """What ``find_duplicates`` left; a process keeps it, because all shards need it."""
    store, name = stores.open_output(url), naming.groups_name(fingerprint)
    try:
        data = store.read(name)
    except NotFoundError:
        data = b""
    if (len(data), crc32c(data)) != (size, crc):
        refuse_published(store, fingerprint)
        raise IncompleteError(f"{url}/{name} is gone or damaged. Rerun the same command.")
    return np.frombuffer(data, MEMBER)
