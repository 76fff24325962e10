"""One input for all engines, its dataset made by a plain build, Prism, and a worker's Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.engines.stuck import Stuck, stuck_on_prism
from tests.kit import builds, disk, fetched
from tests.kit.beam_worker import Worker, make_worker
from tests.kit.images import make_photos, photo, write
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

# One byte per image: appending is safe from many processes.
_COUNT = """
import os
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process
from shardfeed.transforms.images import process
good, log = process.process_image, os.open({log!r}, os.O_WRONLY | os.O_APPEND)
def counted(*args, **kwargs):
    os.write(log, b".")
    return good(*args, **kwargs)
process.process_image = counted
"""
FLAGS = ("--splits", "train=0.8,validation=0.2", "--num_shards", "2")


@pytest.fixture(scope="session")
def prism_program() -> Path:
    return fetched.prism()


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Worker:
    return make_worker(tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="session")
def pool(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One pool for all tests; its workers are new with every job."""
    with servers.worker_pool(worker, tmp_path_factory.mktemp("pool")) as server:
        yield server


@pytest.fixture
def hook(worker: Worker) -> Iterator[Path]:
    """What workers of this test run first; nothing, until it is written."""
    yield worker.hook
    worker.hook.write_text("")


@pytest.fixture
def encoded_images(hook: Path, tmp_path: Path) -> Callable[[], int]:
    """Makes the workers of the next job count the images that they encode; returns what reads the count.

    An engine's own counters are no proof: a busy Prism loses some.
    """
    log = tmp_path / "encoded"
    log.touch()
    hook.write_text(_COUNT.format(log=str(log)))
    return lambda: log.stat().st_size


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty photos of three classes, and two files that cannot be used."""
    root = make_photos(tmp_path_factory.mktemp("engines") / "photos", classes=("cat", "dog", "ähnlich"), each=20)
    write(root, "cat/empty.jpg", b"")
    write(root, "dog/cut.jpg", photo(7)[:200])
    return root


@pytest.fixture(scope="session")
def reference(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a plain build's files."""
    out = tmp_path_factory.mktemp("reference") / "out"
    builds.built(photos, out, *FLAGS)
    return disk.digests(out)


def images_of(sidecars: Iterable[Path]) -> int:
    """How many images are in finished parts."""
    results = [json.loads(path.read_bytes().splitlines()[0])["result"] for path in sidecars]  # a checksum follows
    return sum(int(result["records"]) + sum(result["rejected"].values()) for result in results)


StuckBuild = Callable[..., AbstractContextManager[Stuck]]


@pytest.fixture
def stuck_build(prism_program: Path, pool: Server, hook: Path, photos: Path, tmp_path: Path) -> StuckBuild:
    """``with stuck_build(*flags) as stuck``: a build that stands still on Prism."""

    def start(*flags: str) -> AbstractContextManager[Stuck]:
        args = builds.build_args(photos, tmp_path / "out", *FLAGS, *flags)
        return stuck_on_prism(prism_program, pool, hook, tmp_path, args)

    return start
