"""A block without garbage collection, for code that makes millions of small objects and no garbage.

Collections are triggered by the number of objects made, and each looks at all that are alive: for a manifest of 20,000 shards
they took half of the time of opening it (0.95 s against 0.49 s of CPU time).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_gc() -> Iterator[None]:
    """No collection of garbage in the block; afterwards as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
