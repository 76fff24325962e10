"""``shardfeed`` whose encoder stops at a gate: a build that is certainly in the middle of encoding.

Run as a program: ``python tests/pipeline/gated.py WHERE build …``. After the fifth image it prints a line, and no thread
encodes another image. ``WHERE`` = ``graph``: in the graph, with no helpers, until a line comes on standard input; ``start``: in a
helper, while Beam is being imported, for ever.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

from pipeline import cli, helper_process, helpers
from transforms import encoding

FREE = 5  # images before the gate


def main() -> int:
    """Runs the command line with the gate in its encoder, or in its helper's."""
    where, *argv = sys.argv[1:]
    if where == "graph":
        helpers.MOST_HELPERS = 0
        close_gate(_wait_for_line)
    else:
        helpers.MOST_HELPERS = 1
        helpers.cores = lambda: 2
        helpers._PROGRAM = helpers._PROGRAM.replace("pipeline.helper_process", "tests.pipeline.gated")
        hear = helpers._Helper._hear

        def hearing(self: Any, what: str, **said: Any) -> None:
            hear(self, what, **said)
            if what == "made":  # parts have four images: the second one is never made
                print("at the gate", flush=True)

        helpers._Helper._hear = hearing
    return cli.main([*argv, "--threads", "2"])


def serve() -> None:
    """A helper that stays at the gate."""
    close_gate(threading.Event().wait)
    helper_process.serve()


def close_gate(wait: Callable[[], object]) -> None:
    """Has the encoder call ``wait`` before the sixth image, and hold all other threads meanwhile."""
    process, count, opened, lock = encoding.process_image, itertools.count(), threading.Event(), threading.Lock()

    def gated(*args: Any, **kwargs: Any) -> Any:
        if next(count) >= FREE and not opened.is_set():
            with lock:
                if not opened.is_set():
                    wait()
                    opened.set()
        return process(*args, **kwargs)

    encoding.process_image = gated


def _wait_for_line() -> None:
    print("at the gate", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    sys.exit(main())
