"""Which images have another row in the metadata table than when the dataset was built.

A digest tells that something changed, not how much. So the records of the dataset, which hold what
the rows said, are compared with the rows as they are now. It takes 16 bytes per record, and happens
only when a dataset is there and its digest is another.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import numpy as np

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.hashing import hash64
from shardfeed.format.manifest import Manifest
from shardfeed.format.record_table import read_batches
from shardfeed.transforms.elements import RefBatch, unpack_keys
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.metadata.row import Row, pack_table_row, unpack_table_row
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.stores.base import WritableStore

_EXAMPLES = 3


def changed_rows(
    store: WritableStore, manifest: Manifest, options: BuildOptions, now: Iterable[RefBatch]
) -> tuple[int, tuple[str, ...]]:
    """Number of records whose row is another one ``now``, and the keys of some.

    ``now``: labelled batches of the input. Images that have no record do not count: new ones, and
    those that were rejected. A row differs by its label, its split or a stored column.
    """
    pairs = np.fromiter(
        _records(store, manifest, options), np.dtype([("key", "<u8"), ("row", "<u8")]), manifest.written
    )
    pairs.sort(order="key")
    count, examples = 0, set[str]()
    labels_of = labeller(options).labels_of
    for batch in now:
        if batch.fault:
            continue
        for key, packed, _ in unpack_keys(batch.refs):
            hashed = np.uint64(_key_hash(key))
            place = int(np.searchsorted(pairs["key"], hashed))
            if place == len(pairs) or pairs["key"][place] != hashed:
                continue
            features = unpack_table_row(packed).features if packed else ()
            if _row_hash(batch.split, labels_of(key, packed), features) != int(pairs["row"][place]):
                count += 1
                examples = set(sorted({*examples, clip(key, 60)})[:_EXAMPLES])
    return count, tuple(sorted(examples))


def _records(store: WritableStore, manifest: Manifest, options: BuildOptions) -> Iterator[tuple[int, int]]:
    tables = [
        (split, naming.table_name(shard.file)) for split, found in manifest.splits.items() for shard in found.shards
    ]
    for split, table in tables:
        for batch in read_batches(io.BytesIO(store.read(table)), manifest.label_kind):
            labels_column = "labels" if manifest.label_kind == "multi" else "label"
            columns = [(column, batch.column(column.name).to_pylist()) for column in options.columns]
            for number, (key, label) in enumerate(
                zip(batch.column("key").to_pylist(), batch.column(labels_column).to_pylist(), strict=True)
            ):
                features = tuple((column.name, column.encode(values[number])) for column, values in columns)
                labels = label if isinstance(label, list) else [] if label is None else [label]
                yield _key_hash(key.encode()), _row_hash(split, labels, features)


def _key_hash(key: bytes) -> int:
    return hash64("key", 0, key)


def _row_hash(split: str, labels: Iterable[str], features: tuple[tuple[str, bytes], ...]) -> int:
    return hash64("row", 0, pack_table_row(Row(tuple(sorted(labels)), split, "", features)))
