"""Writes the corpus of odd and hostile images: ``python -m tests.corpus.build_corpus FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.corpus.cases import CASES


def build(folder: Path) -> dict[str, str]:
    """Write every case below ``folder``; returns file name -> outcome ("OK" or a reject reason)."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        (folder / case.name).write_bytes(case.make())
    return {case.name: case.outcome for case in CASES}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
