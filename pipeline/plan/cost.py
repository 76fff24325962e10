"""What a build costs on Dataflow with both buckets in its region: hours of vCPUs, requests, and dollars by one day's price list.

The one decision: a printed price is a list price with its date. Nothing is looked up: a price that comes without a date, or
from a page that could not be reached, is worse than an old one. What is left out is named in the text that shows the figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfeed.errors import clip
from shardfeed.pipeline.dataflow.workers import MACHINE_TYPE, Machine, parse_machine_type
from shardfeed.transforms.encode.threads import REMOTE_THREADS

# us-central1, US dollars, as found on public pages at that date; discounts (FlexRS, shuffle tiers, committed use) are left out.
PRICES_OF = "2026-11"
PRICES_IN = "us-central1"
VCPU_HOUR = 0.056
GB_HOUR = 0.003557
DISK_GB_HOUR = 0.000054
SHUFFLE_GB = 0.011
CLASS_A = 0.005 / 1_000  # a request that lists, writes or composes
CLASS_B = 0.0004 / 1_000  # a request that reads; deleting is free

_DEFAULT = Machine(4, 15 << 30)  # MACHINE_TYPE
DISK_GB_A_WORKER = 25  # Dataflow's default with its shuffle service
MOST_VCPUS = 400  # where --max_num_workers does not say it
WORK_HOURS = 0.25  # that autoscaling is taken to aim at, where the bucket can be read so fast
READ_SECONDS = 0.05  # that a thread waits for an image (shardfeed.transforms.encode.threads)
BUCKET_READS = 5_000  # a second, of a bucket that was idle; it takes twice as many after each BUCKET_DOUBLES seconds
BUCKET_DOUBLES = 20 * 60  # https://cloud.google.com/storage/docs/request-rate
MOST_THREADS = 64  # connections of a process (shardfeed.storage.gcs_clients)
START_HOURS = 4 / 60  # a worker that starts, installs and waits for work, at full price
ENGINE_CPU = 1.15  # of the images' own CPU time: framing, checksums, writing, Beam
SHUFFLED_BYTES = 110  # an image, all groupings together (benchmarks/shuffle.py)
LIST_PAGE = 1_000  # names an answer
COMPOSE_SOURCES = 32
OTHER_WRITES = 12  # the claim, side files, manifest, run.json, looks at the output


@dataclass(frozen=True, slots=True)
class CloudCost:
    """A job: ``reads`` are class B requests (one an image, two a part), ``writes`` class A (listing, creating, composing)."""

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
    parts: int,
    shards: Sequence[int],
    threads: int = REMOTE_THREADS,
    machine_type: str | None = None,
    max_workers: str | None = None,
) -> CloudCost:
    """The cost of a build; ``cpu_seconds``: CPU of one image here; ``shards``: parts of each shard; ``threads``: of a vCPU.

    A vCPU works on images or waits for them, whichever takes longer, and there are no more of them than the bucket can feed.
    A machine type whose size is not known here costs as much as ``MACHINE_TYPE``; ``about_machine`` says so.
    """
    work_hours = images * max(cpu_seconds * ENGINE_CPU, READ_SECONDS / threads) / 3600
    machine = parse_machine_type(machine_type or MACHINE_TYPE) or _DEFAULT
    each = machine.vcpus
    most = int(max_workers) if max_workers and max_workers.isdigit() else max(MOST_VCPUS // each, 1)
    busy_hours = max(WORK_HOURS, _reading_seconds(images) / 3600)
    workers = max(1, min(most, math.ceil(work_hours / busy_hours / each)))
    vcpus = workers * each
    vcpu_hours = work_hours + vcpus * START_HOURS
    hours = vcpu_hours / vcpus
    reads = (
        images + 2 * parts + 2 * len(shards)
    )  # an image; a part's look and its sidecar for the index; a shard's checks
    composes = sum(_composes(count) for count in shards)
    writes = -(-listed // LIST_PAGE) + 2 * parts + composes + len(shards) + OTHER_WRITES
    dollars = (
        vcpu_hours * VCPU_HOUR
        + workers * hours * machine.memory / 2**30 * GB_HOUR
        + workers * hours * DISK_GB_A_WORKER * DISK_GB_HOUR
        + images * SHUFFLED_BYTES / 1e9 * SHUFFLE_GB
        + reads * CLASS_B
        + writes * CLASS_A
    )
    return CloudCost(workers, vcpus, vcpu_hours, hours, reads, writes, dollars)


def about_machine(machine_type: str | None) -> Iterator[str]:
    """What has to be said of a cost that is not that of the machine type asked for."""
    if machine_type and parse_machine_type(machine_type) is None:
        yield (
            f"machine type {clip(machine_type, 60)}: its size is not known here; hours and dollars are those of {MACHINE_TYPE} "
            f"({_DEFAULT.vcpus} vCPUs)"
        )


def about_threads(cpu_seconds: float, threads: int) -> Iterator[str]:
    """That a vCPU would wait for images longer than it works on them, with the number of threads that would do."""
    work = cpu_seconds * ENGINE_CPU
    enough = min(math.ceil(READ_SECONDS / max(work, 1e-6)), MOST_THREADS)
    if enough > threads:
        yield (
            f"on Dataflow {threads} threads a vCPU wait {1_000 * READ_SECONDS / threads:.1f} ms for an image on which it works "
            f"{1_000 * work:.1f} ms; --threads {enough} takes fewer vCPU-hours"
        )


def _reading_seconds(reads: int) -> float:
    """Time that a bucket needs for so many reads, if nobody asks for more than it takes."""
    seconds, rate = 0.0, BUCKET_READS
    while reads > rate * BUCKET_DOUBLES:
        reads, seconds, rate = reads - rate * BUCKET_DOUBLES, seconds + BUCKET_DOUBLES, 2 * rate
    return seconds + reads / rate


def _composes(parts: int) -> int:
    """Calls that put so many parts together, a level of 32 at a time."""
    calls = 1
    while parts > COMPOSE_SOURCES:
        parts = -(-parts // COMPOSE_SOURCES)
        calls += parts
    return calls
