"""``grain.MapDataset.source(shardfeed.records(…))`` with the real Grain, in an environment of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import shardfeed
from tests.kit.datasets import write_dataset
from tests.kit.environments import python_with, run
from tests.kit.sources import ROOT


def test_grain_reads_every_record_once_in_threads_processes_and_hosts_and_resumes(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None)
    keys = list(shardfeed.records(tmp_path, "train").keys)
    script = Path(__file__).with_name("read_with_grain.py")

    output = run(str(python_with("doors")), str(script), str(tmp_path), env=os.environ | {"PYTHONPATH": str(ROOT)})

    found = json.loads(output.splitlines()[-1])
    assert found["in order"] == keys
    assert found["shuffled"] == found["threads"] == found["processes"] != keys
    assert sorted(found["shuffled"]) == sorted(found["DataLoader"]) == sorted(keys)
    assert found["hosts"] == [keys[host::3] for host in range(3)]
    assert found["resumed"] == found["shuffled"][8:]
