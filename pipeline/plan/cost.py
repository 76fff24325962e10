"""What a build costs on Dataflow with both buckets in its region: vCPU-hours, requests, dollars.

The prices are list prices with a date. Nothing is looked up: a price that comes without a date, or
from a page that could not be reached, is worse than an old one. The text that shows the figure
names what is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed.pipeline.dataflow.workers import MACHINE_TYPE, Machine, parse_machine_type
from shardfeed.transforms.encode.threads import REMOTE_THREADS

# US dollars in us-central1, as found on public pages at that date; without discounts (FlexRS,
# shuffle tiers, committed use).
PRICES_OF = "2026-11"
PRICES_IN = "us-central1"
VCPU_HOUR = 0.056
GB_HOUR = 0.003557
DISK_GB_HOUR = 0.000054
SHUFFLE_GB = 0.011
CLASS_A = 0.005 / 1_000  # a request that lists, writes or composes
CLASS_B = 0.0004 / 1_000  # a request that reads; deleting is free

DEFAULT_MACHINE = Machine(4, 15 << 30)  # MACHINE_TYPE
DISK_GB_PER_WORKER = 25  # Dataflow's default with its shuffle service
MOST_VCPUS = 400  # if --max_num_workers is not given
WORK_HOURS = 0.25  # that autoscaling is assumed to aim at, if the bucket can be read that fast
READ_SECONDS = 0.05  # that a thread waits for an image (shardfeed.transforms.encode.threads)
BUCKET_READS = 5_000  # per second, of a bucket that was idle; twice as many after each BUCKET_DOUBLES seconds
BUCKET_DOUBLES = 20 * 60  # https://cloud.google.com/storage/docs/request-rate
START_HOURS = 4 / 60  # a worker that starts, installs and waits for work, at full price
ENGINE_CPU = 1.15  # of the images' own CPU time: framing, checksums, writing, Beam
SHUFFLED_BYTES = 110  # per image, all groupings together (benchmarks/shuffle.py)
LIST_PAGE = 1_000  # names per answer
COMPOSE_SOURCES = 32
OTHER_WRITES = 14  # the claim, side files, duplicates, manifest, run.json, looks at the output


@dataclass(frozen=True, slots=True)
class CloudCost:
    """A job. ``reads``: class B requests, most of them one per image. ``writes``: class A."""

    workers: int
    vcpus: int
    vcpu_hours: float
    hours: float
    reads: int
    writes: int
    dollars: float


def cloud_cost(
    *,
    images: int,
    listed: int,
    cpu_seconds: float,
    splits: Sequence[tuple[int, int]],
    threads: int = REMOTE_THREADS,
    machine_type: str | None = None,
    max_workers: str | None = None,
    duplicates: bool = True,
) -> CloudCost:
    """The cost of a build.

    ``cpu_seconds``: CPU time of one image here. ``splits``: (parts, shards) of each.
    ``threads``: per vCPU. ``duplicates``: whether they are looked for; parts that hold some are
    read once more, which is not foretold.

    A vCPU works on images or waits for them, whichever takes longer, and there are no more vCPUs
    than the bucket can feed. A machine type of unknown size is counted as ``MACHINE_TYPE``.
    """
    machine = parse_machine_type(machine_type or MACHINE_TYPE) or DEFAULT_MACHINE
    work_hours = images * max(cpu_seconds * ENGINE_CPU, READ_SECONDS / threads) / 3600
    most = int(max_workers) if max_workers and max_workers.isdigit() else max(MOST_VCPUS // machine.vcpus, 1)
    busy_hours = max(WORK_HOURS, _reading_seconds(images) / 3600)
    workers = max(1, min(most, math.ceil(work_hours / busy_hours / machine.vcpus)))
    vcpus = workers * machine.vcpus
    vcpu_hours = work_hours + vcpus * START_HOURS
    hours = vcpu_hours / vcpus
    parts, shards = sum(parts for parts, _ in splits), sum(shards for _, shards in splits)
    # An image; a look for a part, and its sidecar for its rows and for its fingerprints; two checks of a shard, and three of
    # each of the two files of a split's index.
    reads = images + (3 if duplicates else 2) * parts + 2 * shards + 6 * len(splits)
    composes = sum(shards * _composes(-(-parts // shards)) for parts, shards in splits if shards)
    composes += sum(2 * _composes(shards + 1) for _, shards in splits)
    # Beside each shard its index, its table and two pieces of the split's index, which has two headers.
    writes = -(-listed // LIST_PAGE) + 2 * parts + composes + 4 * shards + 2 * len(splits) + OTHER_WRITES
    dollars = (
        vcpu_hours * VCPU_HOUR
        + workers * hours * (machine.memory / 2**30 * GB_HOUR + DISK_GB_PER_WORKER * DISK_GB_HOUR)
        + images * SHUFFLED_BYTES / 1e9 * SHUFFLE_GB
        + reads * CLASS_B
        + writes * CLASS_A
    )
    return CloudCost(workers, vcpus, vcpu_hours, hours, reads, writes, dollars)


def _reading_seconds(reads: int) -> float:
    """Time that a bucket needs for this many reads, if nobody asks for more than it takes."""
    seconds, rate = 0.0, BUCKET_READS
    while reads > rate * BUCKET_DOUBLES:
        reads, seconds, rate = reads - rate * BUCKET_DOUBLES, seconds + BUCKET_DOUBLES, 2 * rate
    return seconds + reads / rate


def _composes(parts: int) -> int:
    """Number of calls that put this many parts together, 32 at a time on each level."""
    calls = 1
    while parts > COMPOSE_SOURCES:
        parts = -(-parts // COMPOSE_SOURCES)
        calls += parts
    return calls
