"""How much of this machine a build uses."""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed import storage
from shardfeed.runtime import cores

IMAGE_TIMEOUT = 60  # seconds per image; the slowest good ones (64 Mpx as PNG) take about ten
REMOTE_THREADS = 8  # a read of about 50 ms hides behind 5-6 images of about 10 ms of CPU on a cloud core


def default_threads(sources: Iterable[str]) -> int:
    """Threads if none are asked for: one per core, and at least 8 if reads wait for a bucket."""
    return max(cores(), REMOTE_THREADS) if any(map(storage.is_remote, sources)) else cores()
