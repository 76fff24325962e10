"""What a build writes for each record of a shard beside the shard: index lines and index pieces.

All of it comes from the rows in the sidecars of the shard's parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shardfeed.errors import IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.transforms.elements import PartFile, ShardPlan
from shardfeed.transforms.output.claim import refuse_published
from shardfeed.transforms.output.part_files import Sidecar, read_sidecar
from shardfeed.transforms.output.part_rows import PartRows
from shardfeed.transforms.publish.mapped_index import put_pieces
from shardfeed.transforms.run.concurrent_requests import REQUESTS, side_by_side
from shardfeed.transforms.stores.base import WritableStore


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """What the manifest and the commit must know of a shard's record files."""

    index_bytes: int
    index_crc32c: int
    offsets_crc32c: int
    classes_crc32c: int


def write_record_files(store: WritableStore, fingerprint: str, plan: ShardPlan) -> RecordFiles:
    """Publishes a shard's index, and leaves its pieces of the split's index below ``_parts/``.

    Raises:
        ConflictError: another file has a name.
        AlreadyBuiltError: the parts are swept, because this dataset was published meanwhile.
        IncompleteError: a part is gone.
    """
    name = naming.shard_name(plan.split, plan.index, plan.count)
    sizes, classes = [], []
    for rows in _rows_of(store, fingerprint, plan):
        columns = rows.columns()
        sizes.append(columns["bytes"].astype(np.int64))
        classes.append(columns["class"])
    size = np.concatenate(sizes)
    offset = np.cumsum(size) - size
    lines = [f"{at} {of}\n" for at, of in zip(offset.tolist(), size.tolist(), strict=True)]
    index = "".join(lines).encode()
    store.publish(naming.index_name(name), index)
    return RecordFiles(
        len(index), crc32c(index), *put_pieces(store, fingerprint, name, offset, np.concatenate(classes))
    )


def _rows_of(store: WritableStore, fingerprint: str, plan: ShardPlan) -> Iterator[PartRows]:
    """The rows of a shard's parts, in order; a few sidecars are held at a time."""

    def read(part: PartFile) -> Sidecar | None:
        return read_sidecar(store, fingerprint, plan.split, part.part)

    for start in range(0, len(plan.parts), REQUESTS):
        parts = plan.parts[start : start + REQUESTS]
        for part, sidecar in zip(parts, side_by_side(store.url, read, parts), strict=True):
            if sidecar is None:
                refuse_published(store, fingerprint)  # a joined build published it and swept its parts meanwhile
                raise IncompleteError(f"part {part.part} of {plan.split} is gone. Rerun the same command.")
            yield sidecar.rows
