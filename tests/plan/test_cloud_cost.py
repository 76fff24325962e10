"""Hours, requests and dollars of a job, from counts: worked out by hand here."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.pipeline.plan.cost import cloud_cost
from shardfeed.pipeline.plan.notes import Note, about_machine, about_threads

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "dataflow.md"


def test_a_hundred_million_images() -> None:
    """10 ms an image: 278 hours and 15 % for the engine; 360,000 parts in 20,000 shards of 18.

    The bucket gives 5,000 images a second for 20 minutes, 10,000 for the next 20, then 20,000, then
    40,000: 90 million in 80 minutes, and the last 10 million at 80,000 a second.
    """
    cost = cloud_cost(images=10**8, listed=10**8, cpu_seconds=0.01, splits=[(360_000, 20_000)])

    work = 10**8 * 0.01 * 1.15 / 3600  # 319.4
    assert pytest.approx(82.083, abs=0.001) == 80 + 125 / 60  # minutes; 319.4 hours in them: 233.5 vCPUs
    assert (cost.workers, cost.vcpus) == (59, 236)
    assert cost.vcpu_hours == pytest.approx(work + 236 * 4 / 60)
    assert cost.hours == pytest.approx(cost.vcpu_hours / 236)
    assert cost.reads == 100_000_000 + 3 * 360_000 + 2 * 20_000 + 6
    assert cost.writes == 100_000 + 2 * 360_000 + 20_000 + 4 * 20_000 + 2 * (647 + 1) + 14
    compute = cost.vcpu_hours * (
        0.056 + 3.75 * 0.003557 + 25 / 4 * 0.000054
    )  # 15 GB and 25 GB of disk a worker of four
    assert cost.dollars == pytest.approx(compute + 0.0004 * 101_120.006 + 0.005 * 921.310 + 11 * 0.011)


def test_a_million_large_images_are_read_in_a_quarter_of_an_hour() -> None:
    """The bucket would give them in 200 seconds."""
    cost = cloud_cost(images=10**6, listed=10**6, cpu_seconds=0.04, splits=[(3_600, 212)])

    assert cost.vcpus == 52  # 12.8 hours in a quarter of one: 51.1 vCPUs
    assert cost.hours == pytest.approx(10**6 * 0.04 * 1.15 / 3600 / 52 + 4 / 60)


@pytest.mark.parametrize(("threads", "milliseconds"), [(8, 6.25), (10, 5.0), (64, 3.45)])
def test_a_vcpu_waits_for_small_images(threads: int, milliseconds: float) -> None:
    """50 ms a read, shared by its threads; 3 ms and 15 % of work."""
    cost = cloud_cost(
        images=10**6, listed=10**6, cpu_seconds=0.003, splits=[(3_600, 212)], threads=threads, max_workers="1"
    )

    assert cost.vcpu_hours == pytest.approx(10**6 * milliseconds / 1e3 / 3600 + 4 * 4 / 60)


@pytest.mark.parametrize(("cpu_seconds", "threads", "enough"), [(0.004, 8, 11), (0.004, 10, 11), (0.0, 8, 64)])
def test_threads_that_are_too_few_are_told(cpu_seconds: float, threads: int, enough: int) -> None:
    assert list(about_threads(cpu_seconds, threads)) == [
        Note(
            f"on Dataflow {threads} threads per vCPU wait {50 / threads:.1f} ms for an image on which it works "
            f"{cpu_seconds * 1_150:.1f} ms; --threads {enough} takes fewer vCPU-hours"
        )
    ]


@pytest.mark.parametrize(("cpu_seconds", "threads"), [(0.004, 11), (0.01, 8), (0.0, 64), (0.0, 100)])
def test_nothing_is_told_of_threads_that_are_enough(cpu_seconds: float, threads: int) -> None:
    assert list(about_threads(cpu_seconds, threads)) == []


@pytest.mark.parametrize(
    ("name", "images", "milliseconds"),
    [
        ("10,000 photos of 0.2 Mpx", 10**4, 3),
        ("1 million photos of 0.2 Mpx", 10**6, 3),
        ("1 million photos of 12 Mpx", 10**6, 40),
        ("100 million photos of 0.2 Mpx", 10**8, 3),
    ],
)
def test_the_documented_table_is_this_arithmetic(name: str, images: int, milliseconds: int) -> None:
    """Parts of 278 images of 22 kB, in shards of 100 MB (docs/explanation/scale.md)."""
    parts, shards = round(images / 278), max(round(images * 22e3 / 100e6), 1)
    cost = cloud_cost(images=images, listed=images, cpu_seconds=milliseconds / 1e3, splits=[(parts, shards)])

    row = (
        f"| {name} | {milliseconds} ms | {cost.vcpu_hours:.1f} | {cost.workers} × n2-standard-4 | {cost.hours:.1f} | "
        f"{cost.dollars:.2f} |"
    )
    assert row in DOCS.read_text().splitlines(), row


def test_a_few_images_cost_a_worker_that_starts() -> None:
    cost = cloud_cost(images=10, listed=12, cpu_seconds=0.01, splits=[(10, 2)])

    assert (cost.workers, cost.vcpus, cost.reads, cost.writes) == (1, 4, 50, 1 + 20 + 2 + 4 * 2 + 2 * (1 + 1) + 14)
    assert cost.hours == pytest.approx(4 / 60, rel=0.01)


def test_machine_type_and_number_of_workers_are_taken() -> None:
    cost = cloud_cost(
        images=10**8,
        listed=10**8,
        cpu_seconds=0.01,
        splits=[(1, 1)],
        machine_type="n2-highmem-16",
        max_workers="3",
    )

    assert (cost.workers, cost.vcpus) == (3, 48)


def test_a_machine_of_unknown_size_is_counted_as_the_default_and_that_is_said() -> None:
    costs = [
        cloud_cost(images=10**8, listed=10**8, cpu_seconds=0.01, splits=[(1, 1)], machine_type=name)
        for name in ("e2-micro", "n2-standard-4", None)
    ]

    assert costs[0] == costs[1] == costs[2]
    assert [list(about_machine(name)) for name in ("e2-micro", "n2-standard-4", None)] == [
        [
            Note(
                "machine type e2-micro: its size is not known here; hours and dollars are those of n2-standard-4 (4 vCPUs)"
            )
        ],
        [],
        [],
    ]


@pytest.mark.parametrize(("parts", "calls"), [(1, 1), (32, 1), (33, 1 + 2), (1_024, 1 + 32), (1_025, 1 + 2 + 33)])
def test_shards_of_many_parts_are_composed_in_a_tree(parts: int, calls: int) -> None:
    one = cloud_cost(images=1, listed=1, cpu_seconds=0.01, splits=[(parts, 1)])

    assert one.writes == 1 + 2 * parts + calls + 4 + 2 * (1 + 1) + 14
