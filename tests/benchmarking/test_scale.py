"""The simulation of millions of references, with few: it must follow the graph's steps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = 2_000
REFERENCE_BYTES = 71  # a packed reference with a made-up key of 46 bytes


def test_the_simulation_takes_every_reference_through_the_graph_to_a_manifest(tmp_path: Path) -> None:
    flags = ["--images", str(IMAGES), "--batch", "500", "--parts", "300", "--shards", "20", "--work", str(tmp_path)]
    done = subprocess.run([sys.executable, "benchmarks/scale.py", *flags], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[1].startswith("2,000 references in batches of 500: ")
    start = next(at for at, line in enumerate(said) if line.endswith("element, in bytes as coded"))
    elements = [re.split(r" {2,}", line.strip())[-1] for line in said[start + 1 : start + 11]]
    assert elements == [
        "Counts", "Duplicates", "PartFile", "Plan (side input)", "RefBatch", "ShardPlan",
        "ShardResult (all of them a side input)", "Totals (side input)", "Verdict (side input)", "references of a part",
    ]  # fmt: skip
    assert f" {IMAGES * REFERENCE_BYTES:,}  references of a part" in said[start + 10]
    endings = [
        r"\d+ parts, \d+ shards, manifest [\d.]+ MB, read in .*",
        r"pack 300 parts into 20 shards, .*",
        r"manifest of 20 shards: .*",
        r"verdict with a reject in each of 300 parts: .*",
    ]
    assert len(said) == start + 11 + len(endings)
    for line, ending in zip(said[start + 11 :], endings, strict=True):
        assert re.fullmatch(ending, line)
    assert list(tmp_path.iterdir()) == []
