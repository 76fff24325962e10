"""The program ``shardfeed``, also ``python -m shardfeed``.

The command line is imported inside ``main``, so that Ctrl-C during the import ends as it does
later: with a line and exit code 4.
"""

import gc
import sys

from shardfeed import signals


def main() -> int:
    """Runs one command; returns the exit code."""
    named = sys.argv[1:2]
    signals.install(named[0] if named and named[0].isalpha() else "the command")
    try:
        from shardfeed.cli import main

        return main.main(decided=signals.decided)
    finally:
        # At its end the interpreter searches all objects for cycles three times; after Beam's
        # imports that took half a second.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
