"""Every engine makes the same bytes, on workers that have only the source package."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from apache_beam.utils import subprocess_server

from tests.engines.conftest import FLAGS, images_of
from tests.kit import builds, disk
from tests.kit.beam_worker import Worker
from tests.kit.hooks import put
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server
from tests.kit.worker_python import run

# The account of a worker: its process, that which started it, and where its code comes from.
WITNESS = """
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process
from shardfeed.transforms.images import process
good = process.process_image
def witnessed(*args, **kwargs):
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} {{os.getppid()}} {{os.getcwd()}} {{process.__file__}}\\n")
    return good(*args, **kwargs)
process.process_image = witnessed
"""


def tell_of_pauses() -> None:
    """Beam says so where it waits for an engine that it has asked to stop."""
    put(subprocess_server, "time", SimpleNamespace(sleep=lambda _seconds: print("Beam waits", file=sys.stderr)))


def test_prism_with_a_worker_thread_in_the_launcher_which_waits_for_nothing_after_success(
    prism_program: Path, photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    engine = ("--runner", "PrismRunner", "--prism_location", str(prism_program))
    ended = builds.built(
        photos, tmp_path / "out", *FLAGS, *engine, hooks=[tell_of_pauses], env={"TMPDIR": str(tmp_path)}
    )
    assert ended.err == ""
    assert disk.digests(tmp_path / "out") == reference


def test_worker_threads_of_beams_own_engine_encode_only_the_parts_that_an_earlier_run_has_not_finished(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert builds.build(photos, out, *FLAGS, "--max_rejected", "0").code == 3  # all parts are finished
    lost = sorted(out.glob("_parts/*/train/*.json"))[:3]
    images = images_of(lost)
    assert 0 < images < 62
    for sidecar in lost:
        sidecar.unlink()
    threads = ("--direct_running_mode", "multi_threading", "--direct_num_workers", "2")
    ended = builds.built(photos, out, *FLAGS, *builds.DIRECT, *threads, "--json")
    assert json.loads(ended.out)["encoded_in_this_run"] == images
    assert disk.digests(out) == reference


@dataclass(frozen=True)
class Encoded:
    """Processes that encoded, as pairs (id, parent's id); and the folders and files they ran."""

    who: set[tuple[int, int]]
    code: set[tuple[str, str]]

    def started_by(self, *pids: int) -> set[int]:
        """Processes that encoded and were started by any of these."""
        return {pid for pid, parent in self.who if parent in pids}


@pytest.fixture
def witness(hook: Path, tmp_path: Path) -> Callable[[], Encoded]:
    """Has workers write down who they are; tells what they wrote."""
    log = tmp_path / "witness"
    hook.write_text(WITNESS.format(log=str(log)))

    def read() -> Encoded:
        said = [line.split() for line in log.read_text().splitlines()]
        return Encoded(
            {(int(pid), int(parent)) for pid, parent, _, _ in said}, {(folder, file) for _, _, folder, file in said}
        )

    return read


# Modules that cannot be imported.
LACKING = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name, error
        print(name)
"""


def test_a_worker_of_these_tests_has_nothing_of_the_extras(worker: Worker) -> None:
    extras = ("tensorflow", "keras", "jax", "pytest", "_pytest", "hypothesis", "sklearn", "mypy")
    assert run(worker.python, "-c", LACKING, *extras).split() == list(extras)


def installed(worker: Worker) -> set[tuple[str, str]]:
    """In ``/``, with the source package's own code."""
    return {("/", str(worker.site / "shardfeed" / "transforms" / "images" / "process.py"))}


def test_prism_with_a_worker_that_has_only_beam_and_the_source_package_and_a_launcher_that_does_not_wait(
    prism_program: Path, worker: Worker, pool: Server, witness: Callable[[], Encoded], photos: Path,
    reference: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    with servers.prism(prism_program, pool, tmp_path) as engine:
        flags = (*FLAGS, *engine.flags, "--no_wait_until_finish")
        builds.built(photos, tmp_path / "out", *flags, env={"TMPDIR": str(tmp_path)})
        engine.wait_until_job_ends()

    assert disk.digests(tmp_path / "out") == reference
    encoded = witness()
    workers = encoded.started_by(pool.process.pid)
    assert (len(workers), len(encoded.who), encoded.code) == (1, 1, installed(worker)), encoded


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
    workers = [encoded.started_by(of.process.pid) for of in (pool, second)]
    counts = [*map(len, workers), len(encoded.who)]
    assert (counts, encoded.code) == ([1, 1, 2], installed(worker)), encoded
