"""How many batches a split gives, of how many records: the same number on every host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardfeed.arguments import positive
from shardfeed.errors import UsageError, clip
from shardfeed.words import plural


@dataclass(frozen=True)
class EvaluationPlan:
    """One exact pass over a split.

    Attributes:
        steps: Batches on every host.
        padding: Rows of weight 0 that fill batches up, over all hosts.
        weight: That of every row that is a record: all rows / records. Then a sum of weight * loss,
            divided by all rows, is the mean over the records.
    """

    steps: int
    padding: int
    weight: float


def host_batch(batch_size: int, hosts: int, replicas: int) -> int:
    """Records per batch on each host, for a global ``batch_size``.

    ``replicas`` is the number of devices of all hosts together that share a batch.

    Raises:
        UsageError: the batch is no multiple of hosts and replicas; names the nearest multiples.
    """
    unit = np.lcm(hosts, replicas)
    if batch_size % unit:
        below, above = batch_size // unit * unit, -(-batch_size // unit) * unit
        nearest = f"{below} or {above}" if below else f"{above}"
        raise UsageError(
            f"batch_size={batch_size}: the global batch must be a multiple of {unit}, to be shared by "
            f"{plural(hosts, 'host')} with {plural(replicas, 'device')} in all. The nearest: {nearest}."
        )
    return batch_size // hosts


def training_steps(
    split: str, records: int, share: int, hosts: int, epochs: int | None, start: int, *, elastic: bool
) -> int | None:
    """Batches of ``share`` records from step ``start`` on; None = without end.

    ``elastic``: the hosts read one common order, of which only the last, incomplete batch is left
    out. Otherwise each host has its own, and the host that has the fewest records decides.

    Raises:
        UsageError: there are none.
    """
    fewest = records // hosts
    if not fewest:
        raise UsageError(f"split {split} has {plural(records, 'record')} for {hosts} hosts: train on fewer hosts.")
    if epochs is None:
        return None
    passes = positive("epochs", epochs)
    steps = passes * records // (share * hosts) if elastic else passes * fewest // share
    if not steps:
        raise UsageError(
            f"batch_size={share * hosts}: {epochs} × {plural(records if elastic else fewest * hosts, 'record')} of {split} "
            "are less than one batch. Use a smaller batch_size or more epochs."
        )
    if start >= steps:
        raise UsageError(
            f"start_step={start}: epochs={epochs} are {steps} steps, numbered from 0. Give a start_step below {steps}, or "
            "more epochs."
        )
    return steps - start


def evaluation_plan(
    split: str, records: int, share: int, hosts: int, replicas: int, *, pad: bool, epochs: int | None, start: int
) -> EvaluationPlan:
    """One pass in batches of ``share`` records; without ``pad`` the last batch is smaller.

    Raises:
        UsageError: ``epochs`` or ``start`` is given; several hosts or replicas without ``pad``.
    """
    for name, value in (("epochs", epochs), ("start_step", start or None)):
        if value is not None:
            raise UsageError(
                f"{name}={clip(value)}: evaluation is one pass over {split}. Leave {name} out, or pass training=True."
            )
    if not pad and max(hosts, replicas) > 1:
        raise UsageError(
            f"eval_remainder='partial': expected one device, found {plural(hosts, 'host')} with "
            f"{plural(replicas, 'device')} in all, which need batches of one size. Use 'pad'."
        )
    steps = -(-records // (share * hosts))
    if not pad:
        return EvaluationPlan(steps, padding=0, weight=1.0)
    rows = steps * share * hosts
    return EvaluationPlan(steps, padding=rows - records, weight=rows / records)
