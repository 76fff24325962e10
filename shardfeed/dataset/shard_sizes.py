"""Checks before the first record is read that every shard is there and has the manifest's size.

A TFRecord file that is cut at a record's boundary reads as a shorter file without any error. So
sizes are compared; no shard is opened. A dataset that was built again has shards of the same sizes
if only its classes changed, so the split's index is asked whose it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.parts import whole_name
from shardfeed.dataset.same_dataset import same_dataset
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Shard
from shardfeed.format.record_index import INDEX_HEADER_BYTES, parse_header
from shardfeed.storage.base import NotFoundError, Stat, UnreadableError

_THREADS = 16  # requests at a time; a stat in a bucket waits about 50 ms for the network
# Up to so many shards in a bucket are asked for one by one, and so are fewer than a tenth of a split's
# shards: pages of a listing (500 shards with their indexes each) come one after the other.
_MOST_STATS = 100
_LISTED_PER_STAT = 10


def check_split(info: DatasetInfo, split: SplitInfo, shards: Sequence[Shard] | None = None) -> dict[str, int]:
    """Compares the sizes of ``shards`` of ``split`` (None: all of them) with the manifest.

    Returns the version of each shard by name.

    Raises:
        DatasetError: the split has no records, the dataset is another one than ``info`` says, or a
            shard is absent or of another size. The first such shard is named.
    """
    shards = split.shards if shards is None else shards
    if not split.num_records:
        raise DatasetError(
            f"split {split.name} of the dataset at {clip(info.url)} has no records. Choose another split "
            "or build the dataset again."
        )
    stats = _stats(info.url, split, shards)
    versions: dict[str, int] = {}
    wrong: list[tuple[Shard, Stat | None]] = []
    for shard in shards:
        stat = stats.get(shard.file)
        if stat is None or stat.size != shard.bytes:
            wrong.append((shard, stat))
        else:
            versions[shard.file] = stat.version
    # After the stats: shards of a dataset that is built from now on have other versions.
    if wrong or _indexed_fingerprint(info.url, split) != info.fingerprint:
        same_dataset(info.url, info.fingerprint)
    if wrong:
        shard, stat = wrong[0]
        what = "no such file" if stat is None else f"{stat.size:,} bytes"
        others = f" {len(wrong)} of {len(shards)} shards are wrong." if len(wrong) > 1 else ""
        raise DatasetError(
            f"{clip(storage.join_url(info.url, shard.file))} is damaged: expected {shard.bytes:,} bytes, found {what}."
            f"{others} {COPY_OR_REBUILD}"
        )
    return versions


def _indexed_fingerprint(url: str, split: SplitInfo) -> str | None:
    """Fingerprint of the dataset that is there now, as the split's index says; None if it does not."""
    name = naming.split_index_name(whole_name(split.name))
    with contextlib.suppress(NotFoundError, ValueError):  # an UnreadableError is a ValueError
        return parse_header(storage.open_store(url).read_range(name, 0, INDEX_HEADER_BYTES), "offsets").fingerprint
    return None


def _stats(url: str, split: SplitInfo, shards: Sequence[Shard]) -> Mapping[str, Stat | None]:
    """The store's answers by file name, for ``shards`` and perhaps for more."""
    store, remote = storage.open_store(url), storage.is_remote(url)
    many = len(shards) > max(_MOST_STATS, len(split.shards) // _LISTED_PER_STAT)
    if remote and many and not storage.is_unlistable(url):
        with contextlib.suppress(UnreadableError):  # permission to read does not imply permission to list
            return dict(store.list(f"{whole_name(split.name)}-"))
    names = [shard.file for shard in shards]
    if not remote:  # a thread takes longer to be asked than the disk to answer
        return {name: store.stat(name) for name in names}
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(names, pool.map(store.stat, names), strict=True))
