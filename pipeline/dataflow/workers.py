"""Which workers a build on Dataflow runs on if the user does not say.

A vCPU is the unit. Dataflow starts one SDK process per vCPU and hands it one bundle at a time. So a
process has one vCPU's share of the memory, and needs only the threads that hide one vCPU's waiting
for the bucket: eight, for reads of about 50 ms beside 10 ms of work. One thread per core of the VM,
as in a local build, would be 32 x 32 on a large machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shardfeed._version import __version__
from shardfeed.pipeline.config.engine import Engine
from shardfeed.transforms.encode.budget import PIXEL_BUDGET, SOURCE_BUDGET
from shardfeed.transforms.encode.part_encoder import REMOTE_PARTS
from shardfeed.transforms.encode.threads import REMOTE_THREADS
from shardfeed.transforms.planning.plan import PART_BYTES

MACHINE_TYPE = "n2-standard-4"  # 4 GB per vCPU, AVX2, in nearly every region
SYSTEM_BYTES = 10**9  # of a VM's memory that Dataflow's own processes take at most, by its documentation
WORKER_BYTES = 200 << 20  # an SDK process with our imports and clients, before any image
CODEC_BYTES = 100 << 20  # its child in which the codecs run: imports and clients; the budgets are used there
NEEDED = WORKER_BYTES + CODEC_BYTES + SOURCE_BUDGET + PIXEL_BUDGET + (REMOTE_PARTS + 1) * PART_BYTES
# A bucket that was idle takes about 5,000 reads per second, and twice as many after 20 minutes; a
# vCPU reads about 100 images per second.
FIRST_VCPUS = 48

_GB_PER_VCPU = {"standard": 3.75, "highmem": 6.5, "highcpu": 0.9}  # the least of the families n1, n2, n2d, c2, c3, e2


@dataclass(frozen=True, slots=True)
class Machine:
    """vCPUs and memory (bytes) of a machine type."""

    vcpus: int
    memory: int

    @property
    def per_process(self) -> int:
        """Bytes of memory per SDK process."""
        return (self.memory - SYSTEM_BYTES) // self.vcpus


def parse_machine_type(name: str) -> Machine | None:
    """Size of ``n2-standard-4``, ``n2-custom-4-8192`` (MB) and the like; None if unknown."""
    if custom := re.fullmatch(r"(?:[a-z0-9]+-)?custom-(\d+)-(\d+)(?:-ext)?", name):
        return Machine(int(custom[1]), int(custom[2]) << 20) if int(custom[1]) else None
    if named := re.fullmatch(r"[a-z0-9]+-(standard|highmem|highcpu)-(\d+)(?:-[a-z]+)?", name):
        vcpus = int(named[2])
        return Machine(vcpus, int(_GB_PER_VCPU[named[1]] * vcpus * 2**30)) if vcpus else None
    return None


def encode_threads(engine: Engine, asked: int | None) -> int:
    """``--threads``, or what suits the engine; 0 leaves it to the machine that encodes."""
    return asked or (REMOTE_THREADS if engine.is_dataflow else 0)


def choose_workers(options: Any, *, threads: int, job_name: str) -> list[str]:
    """Fills in what the user left out of Beam's ``options``; explains each choice in a line."""
    from apache_beam.options.pipeline_options import DebugOptions, GoogleCloudOptions, WorkerOptions

    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    debug, said = options.view_as(DebugOptions), []
    cloud.job_name = cloud.job_name or job_name
    if not any(str(label).startswith("shardfeed=") for label in cloud.labels or ()):
        cloud.labels = [*(cloud.labels or ()), f"shardfeed={re.sub(r'[^a-z0-9_-]', '_', __version__.lower())}"]
    if not workers.machine_type:
        workers.machine_type = MACHINE_TYPE
        said.append(f"machine type {MACHINE_TYPE}: 4 GB per vCPU (--worker_machine_type)")
    machine = parse_machine_type(workers.machine_type)
    if machine is None:
        unknown = f"machine type {workers.machine_type}: its size is not known here, so nothing is derived from it"
        return [*said, unknown]
    if debug.number_of_worker_harness_threads is None:
        debug.number_of_worker_harness_threads = machine.vcpus
        said.append(
            f"{machine.vcpus} bundles per VM, one per vCPU and SDK process (--number_of_worker_harness_threads); "
            f"{threads} threads each read images (--threads)"
        )
    if workers.num_workers is None and workers.max_num_workers:
        workers.num_workers = min(workers.max_num_workers, max(FIRST_VCPUS // machine.vcpus, 1))
        said.append(
            f"{workers.num_workers} VMs at first, up to {workers.max_num_workers}: a bucket that was idle takes about 5,000 "
            "reads per second and needs minutes to take more (--num_workers)"
        )
    if machine.per_process < NEEDED:
        said.append(
            f"warning: {workers.machine_type} leaves {machine.per_process >> 20:,} MiB to each of its {machine.vcpus} processes, "
            f"and one can need {NEEDED >> 20:,} MiB if images are large. Take a standard or highmem type if workers run out "
            "of memory"
        )
    return said


def job_name_of(output: str, run_id: str) -> str:
    """A job's name that tells the dataset and is unique: small letters, digits and hyphens."""
    tail = "-".join(re.findall(r"[a-z0-9]+", output.lower())[1:])[-28:].strip("-")  # 63 characters in all
    return f"shardfeed-{tail}-{run_id.lower()}"
