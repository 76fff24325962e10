"""``shardfeed`` whose encoder stops at a gate: a build that is certainly in the middle of encoding.

Run as a program: ``python tests/pipeline/gated.py WHERE build …``. It prints a line when it is there. ``WHERE`` = ``graph``: in
the graph, with no helpers, after five images, until a line comes on standard input; ``start``: in a helper, while Beam is being
imported, after forty images, for ever.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

from pipeline import __main__, helper_process, helpers
from transforms import slices

FREE = 5  # images before the gate
FREE_IN_HELPER = 40  # more than the parts that it has in hand at a time, so that one of them is made


def main() -> int:
    """Runs the command line with the gate in its encoder, or in its helper's."""
    where, *argv = sys.argv[1:]
    if where == "graph":
        helpers.MOST_HELPERS = 0
        close_gate(_wait_for_line, FREE)
    else:
        helpers.MOST_HELPERS = 1
        helpers.cores = lambda: 2
        helpers._PROGRAM = helpers._PROGRAM.replace("pipeline.helper_process", "tests.pipeline.gated")
        hear, printed = helpers._Helper._hear, list[str]()

        def hearing(self: Any, what: str, **said: Any) -> None:
            hear(self, what, **said)
            if what == "made" and not printed:
                printed.append(what)
                print("at the gate", flush=True)

        helpers._Helper._hear = hearing
    sys.argv[1:] = [*argv, "--threads", "2"]
    return __main__.main()


def serve() -> None:
    """A helper that stays at the gate."""
    close_gate(threading.Event().wait, FREE_IN_HELPER)
    helper_process.serve()


def close_gate(wait: Callable[[], object], free: int) -> None:
    """Has the encoder call ``wait`` after ``free`` images, and hold all other threads meanwhile."""
    process, count, opened, lock = slices.process_image, itertools.count(), threading.Event(), threading.Lock()

    def gated(*args: Any, **kwargs: Any) -> Any:
        if next(count) >= free and not opened.is_set():
            with lock:
                if not opened.is_set():
                    wait()
                    opened.set()
        return process(*args, **kwargs)

    slices.process_image = gated


def _wait_for_line() -> None:
    print("at the gate", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    sys.exit(main())
