"""The mapped index of a split, from pieces that are made with the shards.

Each shard leaves two columns below ``_parts/``: offsets and classes of its records. The commit
makes a header for each column and concatenates header and pieces in the order of the shards. So
no process holds the index of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.format.record_index import DTYPE, ITEM_BYTES, IndexColumn, IndexHeader, index_files
from shardfeed.transforms.elements import FileResult, ShardResult
from shardfeed.transforms.output.part_files import put_whole
from shardfeed.transforms.publish.concatenation import Piece, crc32c_of_concatenation, publish_concatenation
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.stores.base import WritableStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


def put_pieces(
    store: WritableStore, fingerprint: str, shard: str, offsets: NDArray[Any], classes: NDArray[Any]
) -> tuple[int, int]:
    """Writes a shard's pieces, of one number per record; gives the crc32c of each."""
    columns: tuple[tuple[IndexColumn, NDArray[Any]], ...] = (("offsets", offsets), ("classes", classes))
    crcs = []
    for column, values in columns:
        data = values.astype(DTYPE[column]).tobytes()
        crcs.append(crc32c(data))
        put_whole(store, naming.index_piece_name(fingerprint, shard, column), data, crcs[-1])
    return crcs[0], crcs[1]


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """A file of a split's index: its ``name``, its ``header``, and the shards' ``pieces``."""

    name: str
    header: bytes
    pieces: tuple[Piece, ...]

    def file(self) -> FileResult:
        """The published file; nothing is read for it."""
        whole = [(crc32c(self.header), len(self.header)), *((piece.crc32c, piece.bytes) for piece in self.pieces)]
        return FileResult(self.name, sum(size for _, size in whole), crc32c_of_concatenation(whole))


def split_indexes(fingerprint: str, shards: Sequence[ShardResult]) -> list[SplitIndex]:
    """Both files of each split; ``shards``: all of them, in order."""
    by_split: dict[str, list[ShardResult]] = {}
    for shard in shards:
        by_split.setdefault(shard.split, []).append(shard)
    made = []
    for split, own in by_split.items():
        crcs = {
            "offsets": [shard.offsets_crc32c for shard in own],
            "classes": [shard.classes_crc32c for shard in own],
        }
        files = index_files(split).items()
        made += [_split_index(fingerprint, column, name, own, crcs[column]) for column, name in files]
    return made


def publish_indexes(store: WritableStore, fingerprint: str, indexes: Sequence[SplitIndex]) -> None:
    """Composes the files of the indexes, several at a time in a bucket.

    Raises:
        ConflictError: another file has the name.
        IncompleteError: a piece is gone.
    """

    def publish(index: SplitIndex) -> None:
        crc = crc32c(index.header)
        head = Piece(naming.index_piece_name(fingerprint, index.name, "header"), len(index.header), crc)
        if store.stat(index.name) is None:  # else nothing is left to do, and the folder of the header may be swept
            put_whole(store, head.name, index.header, crc)
        publish_concatenation(store, fingerprint, index.name, [head, *index.pieces])

    side_by_side(store.url, publish, indexes)


def _split_index(
    fingerprint: str, column: IndexColumn, name: str, shards: Sequence[ShardResult], crcs: Sequence[int]
) -> SplitIndex:
    pieces = tuple(
        Piece(naming.index_piece_name(fingerprint, shard.file, column), shard.records * ITEM_BYTES[column], crc)
        for shard, crc in zip(shards, crcs, strict=True)
    )
    crc = crc32c_of_concatenation((piece.crc32c, piece.bytes) for piece in pieces)
    header = IndexHeader(column, fingerprint, sum(shard.records for shard in shards), len(shards), crc)
    return SplitIndex(name, header.to_bytes(), pieces)
