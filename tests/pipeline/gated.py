"""The command line with a gate in its encoder, for tests that send it signals.

Run as a program: ``python tests/pipeline/gated.py build …``. After five images it prints a line,
and goes on when a line comes on standard input.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

from shardfeed import __main__
from shardfeed.transforms.images import process
from shardfeed.transforms.pool import pool

FREE = 5  # images before the gate


def main() -> int:
    """Runs the command line with the gate in its encoder."""
    pool.MOST_PROCESSES = 0
    close_gate(_wait_for_line, FREE)
    sys.argv += ["--threads", "2"]
    return __main__.main()


def close_gate(wait: Callable[[], object], free: int) -> None:
    """Has the encoder call ``wait`` after ``free`` images, and hold all other threads meanwhile."""
    make, count = process.process_image, itertools.count()
    opened, lock = threading.Event(), threading.Lock()

    def gated(*args: Any, **kwargs: Any) -> Any:
        if next(count) >= free and not opened.is_set():
            with lock:
                if not opened.is_set():
                    wait()
                    opened.set()
        return make(*args, **kwargs)

    process.process_image = gated


def _wait_for_line() -> None:
    print("at the gate", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    sys.exit(main())
