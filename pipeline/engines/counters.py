"""What the workers of a job have counted, and how many images an earlier run had finished.

An engine's numbers are not trusted: a repeated attempt may count twice, a lost one not at all. They
are used only if they hold as many images as the manifest.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from shardfeed.format.manifest import Manifest
from shardfeed.transforms.run.state import Run


def counted(result: Any) -> Counter[str]:
    """Our counters by name, each summed over its steps; ``result`` is Beam's."""
    from apache_beam.metrics.metric import MetricsFilter

    found = result.metrics().query(MetricsFilter().with_namespace("shardfeed"))["counters"]
    counts = Counter[str]()
    for counter in found:
        counts[counter.key.metric.name] += counter.committed or counter.attempted or 0
    return counts


def note_counted(result: Any, run: Run) -> None:
    """Keeps in ``run`` what the workers of a job have counted, if the engine can say it."""
    with contextlib.suppress(Exception):  # whatever an engine's client raises: only a number of the summary is missing
        run.counted = counted(result)


def images_kept(manifest: Manifest, run: Run) -> int | None:
    """Images that an earlier run had finished.

    None if neither this process nor the engine has seen all parts.
    """
    total = manifest.written + sum(manifest.rejected.values())
    if total == run.done:
        return run.kept
    if total == run.counted["images_written"] + run.counted["images_rejected"]:
        return run.counted["images_kept"]
    return None
