"""Every engine that the tests can have runs the same job to the same bytes, from workers that hold only the source package."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.conftest import FLAGS
from tests.engines.servers import Server
from tests.engines.worker import Worker
from tests.promises import builds, disk, hooks

# A worker's own account: its process, that of the pool which started it, and where its code comes from.
WITNESS = """
from transforms import slices
process = slices.process_image
def witnessed(*args, **kwargs):
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} {{os.getppid()}} {{os.getcwd()}} {{slices.__file__}}\\n")
    return process(*args, **kwargs)
slices.process_image = witnessed
"""


@pytest.mark.parametrize("helpers", [0, 2])
def test_prism_with_a_worker_thread_in_the_launcher(
    prism_program: Path, photos: Path, reference: dict[str, str], tmp_path: Path, helpers: int
) -> None:
    engine = ("--runner", "PrismRunner", "--prism_location", str(prism_program))
    builds.built(
        photos,
        tmp_path / "out",
        *FLAGS,
        *engine,
        env={"TMPDIR": str(tmp_path)},
        hooks=[partial(hooks.helpers, helpers)],
    )
    assert disk.digests(tmp_path / "out") == reference


@dataclass(frozen=True)
class Encoded:
    """Who encoded images: the workers' process ids, and those of their pools; and the code that each worker ran, and where."""

    workers: set[int]
    pools: set[int]
    code: set[tuple[str, str]]


@pytest.fixture
def witness(hook: Path, tmp_path: Path) -> Callable[[], Encoded]:
    """Has workers write down who they are; tells what they wrote."""
    log = tmp_path / "witness"
    hook.write_text(WITNESS.format(log=str(log)))

    def read() -> Encoded:
        said = [line.split() for line in log.read_text().splitlines()]
        return Encoded(
            {int(pid) for pid, _, _, _ in said},
            {int(parent) for _, parent, _, _ in said},
            {(folder, file) for _, _, folder, file in said},
        )

    return read


def installed(worker: Worker) -> set[tuple[str, str]]:
    """In ``/``, with the source package's own code."""
    return {("/", str(worker.site / "transforms" / "slices.py"))}


def test_prism_with_a_worker_that_has_only_beam_and_the_source_package(
    prism_program: Path, worker: Worker, pool: Server, witness: Callable[[], Encoded], photos: Path,
    reference: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    with servers.prism(prism_program, pool, tmp_path) as engine:
        builds.built(photos, tmp_path / "out", *FLAGS, *engine.flags, env={"TMPDIR": str(tmp_path)})

    assert disk.digests(tmp_path / "out") == reference
    encoded = witness()
    assert (len(encoded.workers), encoded.pools, encoded.code) == (1, {pool.process.pid}, installed(worker))


def test_beams_job_service_with_workers_of_two_pools_that_have_only_beam_and_the_source_package(
    worker: Worker,
    pool: Server,
    witness: Callable[[], Encoded],
    photos: Path,
    reference: dict[str, str],
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        second = stack.enter_context(servers.worker_pool(worker, tmp_path))
        both = stack.enter_context(servers.pools_in_turn(worker, [pool, second], tmp_path))
        engine = stack.enter_context(servers.job_service(worker, both, tmp_path, workers=2))
        builds.built(photos, tmp_path / "out", *FLAGS, *engine.flags, env={"TMPDIR": str(tmp_path)})

    assert disk.digests(tmp_path / "out") == reference
    encoded = witness()
    pools = {pool.process.pid, second.process.pid}
    assert (len(encoded.workers), encoded.pools, encoded.code) == (2, pools, installed(worker))
