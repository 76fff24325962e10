"""A store that is written to: complete bytes under create-only names, and nothing else.

No rename, no append: nobody ever sees a half-written file, so anybody may repeat any step of a
build at any time.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

from shardfeed.errors import ConflictError
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.storage import NotFoundError, StorageError, Store, join_url

_RACES = 3  # a name that exists, then does not, this many times in a row is not a race any more


class WritableStore(Store):
    """An output folder."""

    def read_sealed(self, name: str) -> bytes:
        """``read`` of a file that holds its own checksum, which the caller compares.

        Raises NotFoundError.
        """
        return self.read(name)

    @abc.abstractmethod
    def checksum(self, name: str) -> tuple[int, int]:
        """(size in bytes, crc32c) of what is stored.

        Reads the file unless the store knows. Raises NotFoundError.
        """

    @abc.abstractmethod
    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        """Create-only write of complete bytes.

        False: the name is already there (nothing is changed).

        ``durable``: the file survives a power cut.
        """

    @abc.abstractmethod
    def compose(self, name: str, sources: Sequence[str], *, scratch: str) -> bool:
        """Concatenates stored files under a new name. False: the name is already there.

        The file survives a power cut.

        Intermediate files may be made under the name prefix ``scratch``; they are removed again.
        """

    @abc.abstractmethod
    def delete(self, name: str, version: int | None = None) -> None:
        """Removes one file; on a store with versions only ``version``, if it is given.

        Missing is fine.
        """

    def prune(self, folder: str) -> None:
        """Removes ``folder`` and the folders below it that are empty.

        Object stores have no folders.
        """

    def publish(
        self, name: str, data: bytes, *, durable: bool = True, same: Callable[[bytes], bool] | None = None
    ) -> None:
        """Creates ``name``, or makes sure that it already holds these bytes (our earlier attempt).

        ``same``: whether other bytes, which the name holds, are as good.

        Raises:
            ConflictError: the name holds other bytes.
        """
        ours = len(data), crc32c(data)
        for _ in range(_RACES):
            if self.create(name, data, durable=durable):
                return
            try:
                found = self.checksum(name)
                if found == ours or (same is not None and same(self.read(name))):
                    return
            except NotFoundError:  # removed between the calls, by a sweep of the same build
                continue
            raise ConflictError(
                f"{join_url(self.url, name)} already holds other content: {found[0]:,} bytes, crc32c {to_hex(found[1])}; "
                f"this build made {ours[0]:,} bytes, crc32c {to_hex(ours[1])}. Published files are never overwritten. "
                "Choose another --output, or remove what an unfinished build left there with --discard_incomplete."
            )
        raise StorageError(
            f"{join_url(self.url, name)} appears and disappears while it is written. "
            "Another process is deleting files in this output: stop it, then run the same command again."
        )
