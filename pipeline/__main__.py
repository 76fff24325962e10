"""Says what the program is called: ``python -m pipeline`` would load every module twice."""

import sys

if __name__ == "__main__":
    sys.stderr.write("python -m pipeline is not the program. Run `shardfeed`, or `python -m shardfeed`.\n")
    sys.exit(2)
