"""Hours, requests and dollars of a job, from counts: worked out by hand here."""

from __future__ import annotations

import pytest

from pipeline.cloud_cost import about_machine, cloud_cost


def test_a_hundred_million_images() -> None:
    """10 ms an image: 278 hours and 15 % for the engine; 360,000 parts in 20,000 shards of 18."""
    cost = cloud_cost(images=10**8, listed=10**8, cpu_seconds=0.01, parts=360_000, shards=[18] * 20_000)

    work = 10**8 * 0.01 * 1.15 / 3600
    assert (cost.workers, cost.vcpus) == (100, 400)
    assert cost.vcpu_hours == pytest.approx(work + 400 * 4 / 60)
    assert cost.hours == pytest.approx(cost.vcpu_hours / 400)
    assert cost.reads == 100_000_000 + 2 * 360_000 + 2 * 20_000
    assert cost.writes == 100_000 + 2 * 360_000 + 20_000 + 20_000 + 12
    compute = cost.vcpu_hours * (
        0.056 + 3.75 * 0.003557 + 25 / 4 * 0.000054
    )  # 15 GB and 25 GB of disk a worker of four
    assert cost.dollars == pytest.approx(compute + 0.0004 * 100_760 + 0.005 * 860.012 + 11 * 0.011)


def test_a_few_images_cost_a_worker_that_starts() -> None:
    cost = cloud_cost(images=10, listed=12, cpu_seconds=0.01, parts=10, shards=[5, 5])

    assert (cost.workers, cost.vcpus, cost.reads, cost.writes) == (1, 4, 34, 1 + 20 + 2 + 2 + 12)
    assert cost.hours == pytest.approx(4 / 60, rel=0.01)


def test_machine_type_and_number_of_workers_are_taken() -> None:
    cost = cloud_cost(
        images=10**8,
        listed=10**8,
        cpu_seconds=0.01,
        parts=1,
        shards=[1],
        machine_type="n2-highmem-16",
        max_workers="3",
    )

    assert (cost.workers, cost.vcpus) == (3, 48)


def test_a_machine_of_unknown_size_is_counted_as_the_default_and_that_is_said() -> None:
    costs = [
        cloud_cost(images=10**8, listed=10**8, cpu_seconds=0.01, parts=1, shards=[1], machine_type=name)
        for name in ("e2-micro", "n2-standard-4", None)
    ]

    assert costs[0] == costs[1] == costs[2]
    assert [list(about_machine(name)) for name in ("e2-micro", "n2-standard-4", None)] == [
        ["machine type e2-micro: its size is not known here; hours and dollars are those of n2-standard-4 (4 vCPUs)"],
        [],
        [],
    ]


@pytest.mark.parametrize(("parts", "calls"), [(1, 1), (32, 1), (33, 1 + 2), (1_024, 1 + 32), (1_025, 1 + 2 + 33)])
def test_shards_of_many_parts_are_composed_in_a_tree(parts: int, calls: int) -> None:
    one = cloud_cost(images=1, listed=1, cpu_seconds=0.01, parts=parts, shards=[parts])

    assert one.writes == 1 + 2 * parts + calls + 1 + 12
