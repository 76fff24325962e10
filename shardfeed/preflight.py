"""What can be known about a split before its first record is read: every shard is there, with the manifest's size.

A TFRecord cut at a record's boundary reads as a shorter file without any error, so sizes are compared, not opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from shardfeed import storage
from shardfeed.dataset_info import DatasetInfo, SplitInfo
from shardfeed.errors import DatasetError, clip
from shardfeed.manifest import Shard

_THREADS = 16  # requests at a time; a stat on gs:// waits about 50 ms for the network


def check_split(info: DatasetInfo, split: SplitInfo, shards: Sequence[Shard] | None = None) -> None:
    """Compare the sizes of ``shards`` of ``split`` (None: of all) with the manifest.

    Raises:
        DatasetError: the split has no records, or names the first shard that is absent or of another size.
    """
    shards = split.shards if shards is None else shards
    if not split.num_records:
        raise DatasetError(
            f"split {split.name} of the dataset at {clip(info.url)} has no records. Choose another split "
            "or build the dataset again."
        )
    store = storage.open_store(info.url)

    def check(shard: Shard) -> str | None:
        found = store.stat(shard.file)
        if found is None:
            return "no such file"
        if not storage.is_remote(info.url) and os.path.isdir(storage.join_url(info.url, shard.file)):
            return "a folder"
        return None if found.size == shard.bytes else f"{found.size:,} bytes"

    with ThreadPoolExecutor(_THREADS if storage.is_remote(info.url) else 1) as pool:
        found = list(pool.map(check, shards))
    wrong = [(shard, what) for shard, what in zip(shards, found, strict=True) if what is not None]
    if wrong:
        shard, what = wrong[0]
        others = f" {len(wrong)} of {len(shards)} shards are wrong." if len(wrong) > 1 else ""
        raise DatasetError(
            f"{clip(storage.join_url(info.url, shard.file))} is damaged: expected {shard.bytes:,} bytes, found {what}."
            f"{others} Copy the file from where the dataset is whole, or build the dataset again into an empty folder."
        )
