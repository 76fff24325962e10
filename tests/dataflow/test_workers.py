"""What is derived from a machine's size if the user chose no workers, and what is said about it."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, WorkerOptions

from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.workers import (
    MACHINE_TYPE,
    NEEDED,
    Machine,
    choose_workers,
    encode_threads,
    job_name_of,
    parse_machine_type,
)

GIB = 2**30


def chosen(*args: str) -> tuple[PipelineOptions, list[str]]:
    options = PipelineOptions(list(args))
    return options, choose_workers(options, threads=8, job_name="shardfeed-1")


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("n2-standard-4", Machine(4, 15 * GIB)),
        ("n1-highmem-8", Machine(8, 52 * GIB)),
        ("c2d-highcpu-32", Machine(32, int(28.8 * GIB))),
        ("c3-standard-8-lssd", Machine(8, 30 * GIB)),
        ("n2-custom-4-10240", Machine(4, 10 * GIB)),
        ("custom-2-4096-ext", Machine(2, 4 * GIB)),
        ("e2-medium", None),
        ("n1-standard-0", None),
    ],
)
def test_a_machine_types_name_tells_its_size(name: str, machine: Machine | None) -> None:
    assert parse_machine_type(name) == machine


def test_the_default_machine_has_memory_for_four_bundles_a_process() -> None:
    """So it suffices whether Dataflow takes the number of threads for a VM's or for a process's."""
    machine = parse_machine_type("n2-standard-4")
    assert machine is not None and machine.per_process >= 4 * NEEDED


def test_a_machine_with_too_little_memory_per_vcpu_gets_a_warning() -> None:
    _, said = chosen("--worker_machine_type=n1-highcpu-2")
    assert said[1:] == [
        "warning: n1-highcpu-2 leaves 444 MiB to each of its 2 processes, and one can need 729 MiB if images are large. Take "
        "a standard or highmem type if workers run out of memory"
    ]


def test_a_machine_with_enough_memory_per_vcpu_gets_none() -> None:
    _, said = chosen("--worker_machine_type=n1-highcpu-16")
    assert [line for line in said if "warning" in line] == []


@pytest.mark.parametrize(
    ("machine_type", "most", "first"),
    [
        ("n2-standard-4", "100", 12),
        ("n2-standard-4", "5", 5),
        ("n2-standard-16", "100", 3),
        ("n2-standard-96", "100", 1),
    ],
)
def test_the_fleet_starts_with_at_most_48_vcpus(machine_type: str, most: str, first: int) -> None:
    options, _ = chosen(f"--worker_machine_type={machine_type}", f"--max_num_workers={most}")
    assert options.view_as(WorkerOptions).num_workers == first


@pytest.mark.parametrize("flags", [(), ("--worker_machine_type=",)], ids=["none", "empty"])
def test_without_a_machine_type_it_is_ours(flags: tuple[str, ...]) -> None:
    options, said = chosen(*flags)
    assert options.view_as(WorkerOptions).machine_type == MACHINE_TYPE
    assert said[0] == "machine type n2-standard-4: 4 GB per vCPU (--worker_machine_type)"


def test_a_machine_of_unknown_size_is_left_to_dataflow() -> None:
    options, said = chosen("--worker_machine_type=e2-medium", "--max_num_workers=9")
    assert said == ["machine type e2-medium: its size is not known here, so nothing is derived from it"]
    assert options.view_as(DebugOptions).number_of_worker_harness_threads is None
    assert options.view_as(WorkerOptions).num_workers is None


@pytest.mark.parametrize(
    ("runner", "asked", "threads"), [("DataflowRunner", None, 8), ("DataflowRunner", 12, 12), ("FnApiRunner", None, 0)]
)
def test_a_process_on_dataflow_has_eight_threads_unless_told(runner: str, asked: int | None, threads: int) -> None:
    assert encode_threads(Engine(runner), asked) == threads


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("gs://data/Flowers_v1", "shardfeed-data-flowers-v1-20260102t030405-abcd1234"),
        ("gs://data/" + "x" * 90, "shardfeed-" + "x" * 28 + "-20260102t030405-abcd1234"),
        ("gs://data/ü", "shardfeed-data-20260102t030405-abcd1234"),
    ],
)
def test_a_jobs_name_tells_the_dataset_in_63_letters(output: str, name: str) -> None:
    made = job_name_of(output, "20260102T030405-abcd1234")
    assert (made, len(made) <= 63) == (name, True)
