"""What the workers of a job have counted. A repeated attempt may count twice, a lost one never."""

from __future__ import annotations

from typing import Any


def counted(result: Any) -> dict[str, int]:
    """Our counters by name, each summed over its steps; ``result`` is Beam's."""
    from apache_beam.metrics.metric import MetricsFilter

    found = result.metrics().query(MetricsFilter().with_namespace("shardfeed"))["counters"]
    counts: dict[str, int] = {}
    for counter in found:
        name = counter.key.metric.name
        counts[name] = counts.get(name, 0) + (counter.committed or counter.attempted or 0)
    return counts
