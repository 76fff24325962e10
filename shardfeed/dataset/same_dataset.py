"""Notices a dataset that was built again, in place, while a program reads the one that it opened.

Checksums do not: records of one size lie at the same bytes in each build of them, and are whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import DatasetError, clip
from shardfeed.storage.base import Stat


def same_dataset(url: str, fingerprint: str) -> DatasetInfo:
    """The dataset at ``url`` as it is now; DatasetError if its ``fingerprint`` is another."""
    found = info(url)
    if found.fingerprint != fingerprint:
        raise DatasetError(
            f"the dataset at {clip(url)} is another one since it was opened: expected fingerprint "
            f"{fingerprint}, found {found.fingerprint}. Open it again."
        ) from None
    return found


class ShardVersions:
    """Versions of shards that are known to belong to the dataset that was opened. Thread-safe.

    ``versions``: by shard, as they were when it was opened. A shard may have further ones: it was
    copied again, or several web servers hold it.
    """

    def __init__(self, url: str, fingerprint: str, versions: Mapping[str, int]) -> None:
        self._url, self._fingerprint, self._known = url, fingerprint, set(versions.items())

    def check(self, shard: str, stat: Stat | None) -> None:
        """Takes what a read of ``shard`` found; None: the store tells no version.

        Raises:
            DatasetError: the dataset is another one, or gone.
        """
        if stat is not None and (shard, stat.version) not in self._known:
            same_dataset(self._url, self._fingerprint)
            self._known.add((shard, stat.version))
