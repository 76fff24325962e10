"""The sidecars of many parts, read once all are made: for duplicates and for the record tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardfeed.errors import IncompleteError
from shardfeed.transforms.output.claim import refuse_published
from shardfeed.transforms.output.part_files import Sidecar, read_sidecar
from shardfeed.transforms.run.concurrent_requests import REQUESTS, side_by_side
from shardfeed.transforms.stores.base import WritableStore


def read_sidecars(store: WritableStore, fingerprint: str, parts: Sequence[tuple[str, int]]) -> Iterator[Sidecar | None]:
    """The sidecars of parts, in order; a few are held at a time. None: a part without images."""
    for begin in range(0, len(parts), REQUESTS):
        some = parts[begin : begin + REQUESTS]
        yield from side_by_side(store.url, lambda part: read_sidecar(store, fingerprint, *part), some)


def finished_sidecars(store: WritableStore, fingerprint: str, parts: Sequence[tuple[str, int]]) -> Iterator[Sidecar]:
    """The sidecars of parts that were finished, in order; a few are held at a time.

    Raises:
        AlreadyBuiltError: this dataset was published meanwhile, and its parts are swept.
        IncompleteError: a part is gone.
    """
    for (split, part), sidecar in zip(parts, read_sidecars(store, fingerprint, parts), strict=True):
        if sidecar is None:
            refuse_published(store, fingerprint)
            raise IncompleteError(f"part {part} of {split} is gone. Rerun the same command.")
        yield sidecar
