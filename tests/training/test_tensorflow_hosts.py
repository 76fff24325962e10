"""Hosts as real processes, each with a TensorFlow of its own."""

from __future__ import annotations

import pytest

from tests.kit.datasets import Written
from tests.training.programs import run_together


def test_two_workers_of_a_strategy_find_out_which_they_are_and_read_each_record_once(written: Written) -> None:
    one, two = run_together("tf_multi_worker.py", 2, written.path, backend="tensorflow")

    text = "CPU, 2 replicas on 2 hosts of MultiWorkerMirroredStrategy, which is in scope."
    assert one["inside"] == two["inside"] == [*one["cut"], text] == [*two["cut"], text] == [2, 2, text]
    assert one["outside"][:2] == [1, 1]
    for number, seen in enumerate((one, two)):
        doubt = (
            "TF_CONFIG names 2 workers, but no strategy is in scope, so that each process would read the whole split. Call this "
            f"inside the scope() of a MultiWorkerMirroredStrategy; or pass host=({number}, 2) for this process's share, "
            "host=(0, 1) for the whole split."
        )
        assert doubt in seen["outside"][2]
        assert seen["refused"] == [
            doubt,
            doubt,
            "accelerator of 1 host: load cuts for 2 hosts here. Call detect_accelerator() where load is called: inside the same "
            "scope(), and after the processes have found each other.",
        ]
    assert one["fit_args"] == {"steps_per_epoch": len(written.records["train"]) // 12}
    records = written.records["validation"]
    assert sorted(one["keys"] + two["keys"]) == sorted(record.key.decode() for record in records)
    assert one["rows"] == two["rows"] == 6
    assert one["shares"] == two["shares"] == [[6]]
    assert one["weights"] == two["weights"]
    assert len(one["weights"]) == -(-len(records) // 16)
    assert sum(one["weights"]) == pytest.approx(
        16 * -(-len(records) // 16), rel=1e-6
    )  # rows of all steps, padding included
