"""A part's references become a finished part: the job's hot path, without Beam.

One thread per part looks for a sidecar that an earlier run left, sorts the part's references by
their hashes, makes or collects their slices in that order and writes. ``in_flight.py`` keeps the
next parts in flight while one is written, so that nothing idles between parts, nor while a bucket
answers.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from shardfeed import storage
from shardfeed.errors import IncompleteError, UsageError, clip
from shardfeed.format.checksums import crc32c
from shardfeed.format.hashing import MASK128, hash64
from shardfeed.transforms import stores
from shardfeed.transforms.elements import ImageRef, PartResult, Plan, unpack_refs
from shardfeed.transforms.encode.in_flight import Made
from shardfeed.transforms.encode.settings import Codec, EncoderSettings
from shardfeed.transforms.encode.slices import Slice, SliceEncoder
from shardfeed.transforms.output.part_files import Sidecar, commit_part, find_part
from shardfeed.transforms.output.part_rows import PartRows
from shardfeed.transforms.run.outcome import ENGINE_FAULT

REMOTE_PARTS = 7  # further parts in flight: each waits for three answers of a bucket in turn


class PartEncoder:
    """Makes parts of the plan of ``slices`` with its threads, in its run's output.

    ``close`` leaves ``slices`` open.
    """

    def __init__(self, slices: SliceEncoder) -> None:
        self._slices, self._plan, self._run = slices, slices.plan, slices.settings.run
        self._store = stores.open_output(self._run.output)
        # One ahead on a disk, so that the threads have work while a part is written; more if a
        # small part cannot feed all threads.
        self.ahead = max(REMOTE_PARTS if storage.is_remote(self._run.output) else 1, slices.threads // 4)
        self._parts = ThreadPoolExecutor(self.ahead + 1, thread_name_prefix="part")

    def close(self) -> None:
        """Ends the threads; drops the parts in flight."""
        self._parts.shutdown(wait=True, cancel_futures=True)

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Begins a part; ``packed``: batches of its references.

        The future raises UsageError if two roots hold the same key, IncompleteError if a root lists
        a key twice.
        """
        return self._parts.submit(self._make_part, split, part, packed)

    def _make_part(self, split: str, part: int, packed: Sequence[bytes]) -> tuple[PartResult, int]:
        found = find_part(self._store, self._plan.fingerprint, split, part)
        if found is not None:
            return found.result, found.result.images
        ordered = self._in_order(ref for batch in packed for ref in unpack_refs(batch))
        with contextlib.closing(self._slices.encode(ordered)) as slices:  # others wait for its end
            return self._finish(split, part, slices)

    def _in_order(self, refs: Iterable[ImageRef]) -> list[ImageRef]:
        """The references in the order of their records in the part."""
        sources, seed = self._slices.settings.sources, self._slices.settings.options.seed
        hashed = sorted(
            ((hash64("part", seed, ref.key), ref.key, ref.root, ref) for ref in refs), key=lambda item: item[:3]
        )
        for (_, key, one, _), (_, other, two, _) in pairwise(hashed):
            if key == other and one == two:
                raise IncompleteError(f"{clip(key)} came twice out of one listing. {ENGINE_FAULT}")
            if key == other:
                raise UsageError(
                    f"{clip(key)} is in two inputs: {clip(sources[one])} and {clip(sources[two])}. "
                    "A key is a record's name and must be unique: give one --input that holds both as folders, or rename, "
                    "then rerun with --discard_incomplete."
                )
        return [item[3] for item in hashed]

    def _finish(self, split: str, part: int, slices: Iterable[Slice]) -> tuple[PartResult, int]:
        """Writes and commits a part."""
        merged, pieces = Slice(), list[bytes]()
        for done in slices:
            self._run.check()  # after the slice: one ends early only when the flag is up
            pieces += done.records
            merged.merge(done)
        records = b"".join(pieces)
        result = PartResult(
            split=split,
            part=part,
            bytes=len(records),
            records=len(pieces),
            crc32c=crc32c(records),
            key_sum=merged.key_sum & MASK128,
            rejected=dict(Counter(reason for _, reason, _ in merged.rejects)),
            fixes=merged.fixes,
            class_counts=merged.class_counts,
            stats=merged.stats,
        )
        rows = PartRows(bytes(merged.rows), bytes(merged.keys), bytes(merged.extras))
        sidecar = Sidecar(result, rows, tuple(merged.rejects), self._plan.versions)
        return commit_part(self._store, self._plan.fingerprint, sidecar, records), merged.reused


@contextlib.contextmanager
def open_encoder(plan: Plan, settings: EncoderSettings, codec: Codec | None) -> Iterator[PartEncoder]:
    """An encoder with threads of its own, which end with the block."""
    with (
        contextlib.closing(SliceEncoder(plan, settings, codec)) as slices,
        contextlib.closing(PartEncoder(slices)) as encoder,
    ):
        yield encoder
