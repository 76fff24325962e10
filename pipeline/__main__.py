"""The program ``shardfeed``, also ``python -m pipeline``.

The command line is imported inside ``main``, so that Ctrl-C while that goes on ends as it does later: a line, and exit 4.
"""

import contextlib
import gc
import signal
import sys
import threading

from pipeline.early_signals import leaving_at_once


def main() -> int:
    """Runs one command; returns the exit code."""
    build = sys.argv[1:2] == ["build"]
    try:
        with leaving_at_once("build") if build else contextlib.nullcontext():
            from pipeline import cli

            return cli.main()
    except KeyboardInterrupt:  # while the command line does not listen for it itself
        print("shardfeed: stopped; rerun the same command.", file=sys.stderr)
        return 4  # of IncompleteError, whose module may be what was being imported
    finally:
        _end_undisturbed()
        # Python notes a KeyboardInterrupt that leaves code in a string (a dataclass is made by such), and would end by the
        # signal although it was caught; running another string takes the note back.
        exec("")
        # The interpreter's end looks at every object three times, for cycles. Of Beam's imports that took half a second.
        gc.freeze()


def _end_undisturbed() -> None:
    """From here on no signal changes how the command ended: what is left, such as Beam's tidying, concerns nobody."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
