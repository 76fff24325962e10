"""A shard and its index from its parts, without reading the records: TFRecord files concatenate.

The shard's crc32c is computed from its parts', and the store's file must have it. The index needs
each record's size, which the sidecars hold. A shard that is there already (from an earlier
attempt or a joined build) is checked and kept. This is looked at first: its parts may be swept.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.format.manifest import BLOCK_BYTES
from shardfeed.storage import NotFoundError
from shardfeed.transforms import stores
from shardfeed.transforms.elements import PartFile, ShardPlan, ShardResult
from shardfeed.transforms.output.part_files import Sidecar, file_of, read_sidecar
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.stores.base import WritableStore

_ZEROS = bytes(1 << 20)
_AT_ONCE = 4  # shards; each sends 16 requests at a time, a process keeps 64 connections


def compose_shards(run: Run, fingerprint: str, shards: Iterable[ShardPlan]) -> list[ShardResult]:
    """Publishes shards, four at a time: one is copied while others wait for the disk or the bucket.

    Raises:
        ConflictError, IncompleteError: as ``compose_shard``; or the run shall stop.
    """
    store = stores.open_output(run.output)

    def compose(shard: ShardPlan) -> ShardResult:
        run.check()
        return compose_shard(store, fingerprint, shard)

    return side_by_side(run.output, compose, shards, _AT_ONCE, on_disk=_AT_ONCE)


def compose_shard(store: WritableStore, fingerprint: str, plan: ShardPlan) -> ShardResult:
    """Publishes one shard and its index.

    Raises:
        ConflictError: another file has the shard's name.
        IncompleteError: a part is gone.
    """
    name = naming.shard_name(plan.split, plan.index, plan.count)
    size = sum(part.bytes for part in plan.parts)
    crc = crc32c_of_concatenation((part.crc32c, part.bytes) for part in plan.parts)
    if not _is_there(store, name, size, crc):
        sources = [file_of(fingerprint, plan.split, part) for part in plan.parts]
        try:
            store.compose(name, sources, scratch=f"{naming.work_folder(fingerprint)}/compose/{name}", durable=True)
        except NotFoundError as error:
            if not _is_there(store, name, size, crc):
                raise IncompleteError(f"a part of {name} is gone ({error}). Rerun the same command.") from None
        if not _is_there(store, name, size, crc):
            raise IncompleteError(f"{store.url}/{name} is not there after composing. Rerun the same command.")
    index = _index(store, fingerprint, plan, naming.index_name(name))
    return ShardResult(
        split=plan.split,
        file=name,
        records=sum(part.records for part in plan.parts),
        bytes=size,
        crc32c=crc,
        blocks=blocks_of(plan.parts),
        index_bytes=len(index),
        index_crc32c=crc32c(index),
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


def _index(store: WritableStore, fingerprint: str, plan: ShardPlan, name: str) -> bytes:
    def read(part: PartFile) -> Sidecar | None:
        return read_sidecar(store, fingerprint, plan.split, part.part)

    lines, offset = [], 0
    for part, sidecar in zip(plan.parts, side_by_side(store.url, read, plan.parts), strict=True):
        if sidecar is None:
            if store.stat(name) is not None:  # a joined build published it and swept its parts meanwhile
                return store.read(name)
            raise IncompleteError(f"part {part.part} of {plan.split} is gone. Rerun the same command.")
        for size in sidecar.rows.columns()["bytes"].tolist():
            lines.append(f"{offset} {size}\n")
            offset += size
    data = "".join(lines).encode()
    store.publish(name, data)
    return data
