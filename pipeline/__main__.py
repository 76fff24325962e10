"""``python -m pipeline``: the same program as ``shardfeed``.

The command line is imported inside ``main``, so that Ctrl-C while that goes on ends as it does later: a line, and exit 4.
"""

import sys


def main() -> int:
    """Runs one command; returns the exit code."""
    try:
        from pipeline import cli

        return cli.main()
    except KeyboardInterrupt:  # while the command line does not listen for it itself
        print("shardfeed: stopped; rerun the same command.", file=sys.stderr)
        return 4  # of IncompleteError, whose module may be what was being imported


if __name__ == "__main__":
    sys.exit(main())
