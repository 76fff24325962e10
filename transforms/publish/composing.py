"""Shards from their parts, without reading the records: TFRecord files concatenate."""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed.format import naming
from shardfeed.format.manifest import BLOCK_BYTES
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Duplicates, PartFile, Plan, ShardPlan, ShardResult
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.part_files import file_of
from shardfeed.transforms.publish.concatenation import Piece, publish_concatenation
from shardfeed.transforms.publish.record_files import write_record_files
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.stores.base import WritableStore

_AT_ONCE = 4  # shards; each sends 16 requests at a time, a process keeps 64 connections


def compose_shards(
    run: Run, plan: Plan, options: BuildOptions, duplicates: Duplicates, shards: Iterable[ShardPlan]
) -> list[ShardResult]:
    """Publishes shards with all that goes with them, four at a time.

    One is copied while others wait for the disk or the bucket.

    Raises:
        ConflictError, IncompleteError: as ``compose_shard``; or the run shall stop.
    """
    store = stores.open_output(run.output)

    def compose(shard: ShardPlan) -> ShardResult:
        run.check()
        return compose_shard(store, plan, options, duplicates, shard)

    return side_by_side(run.output, compose, shards, _AT_ONCE, on_disk=_AT_ONCE)


def compose_shard(
    store: WritableStore, plan: Plan, options: BuildOptions, duplicates: Duplicates, shard: ShardPlan
) -> ShardResult:
    """Publishes one shard, its index and its table; leaves its pieces of the split's index.

    Raises:
        ConflictError: another file has the shard's name, or that of a file beside it.
        AlreadyBuiltError: this dataset was published meanwhile, and its parts are swept.
        IncompleteError: a part is gone.
    """
    name = naming.shard_name(shard.split, shard.index, shard.count)
    parts = [Piece(file_of(plan.fingerprint, shard.split, part), part.bytes, part.crc32c) for part in shard.parts]
    file = publish_concatenation(store, plan.fingerprint, name, parts)
    beside = write_record_files(store, plan, options, duplicates, shard)
    return ShardResult(
        split=shard.split,
        file=name,
        records=sum(part.records for part in shard.parts),
        bytes=file.bytes,
        crc32c=file.crc32c,
        blocks=blocks_of(shard.parts),
        **beside,
    )


def blocks_of(parts: Iterable[PartFile]) -> tuple[tuple[int, int], ...]:
    """(records, bytes) of a shard's blocks: parts in order, closed at 1 MB.

    A short tail joins the block before it.
    """
    blocks: list[tuple[int, int]] = []
    records = size = 0
    for part in parts:
        records, size = records + part.records, size + part.bytes
        if size >= BLOCK_BYTES:
            blocks.append((records, size))
            records = size = 0
    if records:
        if blocks:
            last = blocks.pop()
            records, size = records + last[0], size + last[1]
        blocks.append((records, size))
    return tuple(blocks)
