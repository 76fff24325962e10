"""Which records of a split are a host's own: a range of record numbers, whatever the number of shards.

The one decision: records are cut, not files. Dealt out by file, ten shards over eight hosts gave 80 to 217 records a host;
a cut at record numbers gives every host the same ±1, and one boundary in the middle of a block costs a host less than a
block of reading. Hosts agree without talking to each other, because everything here follows from the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardfeed.arguments import positive
from shardfeed.errors import UsageError

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Runs of records inside blocks: ``place`` of the block in the order that was cut, records to ``skip``, to ``take``."""

    place: _Ints
    skip: _Ints
    take: _Ints

    def __len__(self) -> int:
        return len(self.place)


def host_range(records: int, host: int, hosts: int) -> range:
    """Record numbers of host number ``host``. Ranges of all hosts follow each other and differ in length by 1 at most."""
    return range(records * host // hosts, records * (host + 1) // hosts)


def cut(counts: _Ints, mine: range) -> Pieces:
    """The records ``mine`` of blocks of ``counts`` records that are read one after the other."""
    ends = np.cumsum(counts)
    starts = ends - counts
    place = np.flatnonzero((starts < mine.stop) & (ends > mine.start)) if mine else np.zeros(0, np.int64)
    skip = np.maximum(mine.start - starts[place], 0)
    return Pieces(place, skip, np.minimum(ends[place], mine.stop) - starts[place] - skip)


def training_steps(split: str, records: int, share: int, hosts: int, epochs: int | None, start: int) -> int | None:
    """Batches of ``share`` records from step ``start`` on, the same number on every host; None = without end.

    Raises:
        UsageError: there is none.
    """
    least = records // hosts  # records an epoch of the host that has the fewest
    if not least:
        raise UsageError(f"split {split} has {records} records for {hosts} hosts: train on fewer hosts.")
    if epochs is None:
        return None
    steps = positive("epochs", epochs) * least // share
    if not steps:
        raise UsageError(
            f"batch_size={share * hosts}: {epochs} × {records} records of {split} are less than one batch. "
            "Use a smaller batch_size or more epochs."
        )
    if start >= steps:
        raise UsageError(
            f"start_step={start}: epochs={epochs} are {steps} steps, numbered from 0. Give a start_step below {steps}, or more "
            "epochs."
        )
    return steps - start


def host_batch(batch_size: int, hosts: int, replicas: int) -> int:
    """Records a batch on each host, for a global ``batch_size``.

    ``replicas`` is the number of devices of all hosts together that share a batch.

    Raises:
        UsageError: the batch does not divide by hosts and replicas; names the nearest sizes that do.
    """
    unit = np.lcm(hosts, replicas)
    if batch_size % unit:
        below, above = batch_size // unit * unit, -(-batch_size // unit) * unit
        nearest = f"{below} or {above}" if below else f"{above}"
        raise UsageError(
            f"batch_size={batch_size}: the global batch must divide by {unit}, to be shared by {hosts} "
            f"host{'s' * (hosts > 1)} with {replicas} device{'s' * (replicas > 1)} in all. The nearest that does: {nearest}."
        )
    return batch_size // hosts
