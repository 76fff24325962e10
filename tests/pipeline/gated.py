"""``shardfeed`` whose encoder stops at a gate: a build that is certainly in the middle of encoding.

Run as a program: ``python tests/pipeline/gated.py WHERE build …``. After the fifth image it prints a line, and no thread
encodes another image before a line comes on standard input. ``WHERE`` = ``start``: in the head start, while Beam is being
imported; ``graph``: in the graph, with no head start.
"""

from __future__ import annotations

import itertools
import sys
import threading
from typing import Any

from pipeline import cli, helpers
from transforms import encoding

FREE = 5  # images before the gate


def main() -> int:
    """Runs the command line with the gate in its encoder."""
    where, *argv = sys.argv[1:]
    if where == "graph":
        helpers.MOST_HELPERS = 0
    process, count, opened, lock = encoding.process_image, itertools.count(), threading.Event(), threading.Lock()

    def gated(*args: Any, **kwargs: Any) -> Any:
        if next(count) >= FREE and not opened.is_set():
            with lock:
                if not opened.is_set():
                    print("at the gate", flush=True)
                    sys.stdin.readline()
                    opened.set()
        return process(*args, **kwargs)

    encoding.process_image = gated
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main())
