"""A block without garbage collection, for code that makes millions of small objects and no garbage.

The number of new objects triggers collections, and each looks at all objects that are alive. For a
manifest of 20,000 shards they took half of the time of opening it (0.95 s of CPU time, 0.49 s
without).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_gc() -> Iterator[None]:
    """Turns garbage collection off in the block; afterwards it is as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
