"""Workers of a pool lack the package, meet a bug or die: one line says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import PIL
import pytest

from tests.kit import builds
from tests.kit.beam_worker import Worker, make_bare_worker
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

BUG = """
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process
from shardfeed.transforms.images import process
def broken(*args, **kwargs):
    raise ValueError("a bug")
process.process_image = broken
"""
OTHER_CODEC = """
import PIL.Image
PIL.__version__ = "12.1.1"
"""
NOT_THE_FIRST = """
from shardfeed.transforms.steps import list_images
list_images.require_same_versions = lambda launcher: None
"""
DYING = BUG.replace('raise ValueError("a bug")', "os.kill(os.getpid(), 9)")
Flags = Callable[[str, Server], tuple[str, ...]]


@pytest.fixture(scope="module")
def flags(
    prism_program: Path, worker: Worker, pool: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flags]:
    """Flags of a build on Prism or on Beam's own job service, with a pool's workers."""
    home = tmp_path_factory.mktemp("engines")
    with (
        servers.prism(prism_program, pool, home) as prism,
        servers.job_service(worker, pool, home, workers=1) as job_service,
    ):
        engines = {"Prism": prism, "job service": job_service}
        yield lambda kind, pool: replace(engines[kind], pool=pool).flags


def test_workers_without_the_package_are_named_and_no_rerun_is_advised(
    flags: Flags, photos: Path, tmp_path: Path
) -> None:
    with servers.worker_pool(make_bare_worker(tmp_path), tmp_path) as pool:
        failed = builds.build(photos, tmp_path / "out", *flags("Prism", pool))
    assert (failed.code, failed.out) == (2, "")
    assert failed.err == (
        "shardfeed: the workers have no shardfeed (ModuleNotFoundError: No module named 'shardfeed'). The pool at "
        f"{pool.address} starts the first python of its PATH: install the package for that one (pip install . in this "
        "repository), or start the pool where it is. docs/how-to/engines.md has what workers need.\n"
    )


def refused_codec() -> str:
    """What is said of a worker with ``OTHER_CODEC``."""
    return (
        "shardfeed: the workers run other codecs than this launcher, and would make other bytes: pillow 12.1.1 there, "
        f"{PIL.__version__} here. Use one image for launcher and workers (Dockerfile makes one), or install the launcher's where "
        f"the workers run (pip install pillow=={PIL.__version__}; --setup_file does it).\n"
    )


def test_workers_with_other_codecs_are_refused_before_anything_is_listed(
    flags: Flags, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    hook.write_text(OTHER_CODEC)
    failed = builds.build(photos, tmp_path / "out", *flags("job service", pool))
    assert (failed.code, failed.out, failed.err) == (2, "", refused_codec())
    assert not (tmp_path / "out").exists()


def test_a_worker_with_other_codecs_that_joins_later_encodes_nothing(
    flags: Flags, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    hook.write_text(OTHER_CODEC + NOT_THE_FIRST)
    failed = builds.build(photos, tmp_path / "out", *flags("Prism", pool))
    assert (failed.code, failed.out, failed.err) == (2, "", refused_codec())
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["CLAIM"]


@pytest.mark.parametrize("kind", ["Prism", "job service"])
def test_a_bug_in_a_step_is_told_with_one_traceback(
    kind: str, flags: Flags, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    hook.write_text(BUG)
    failed = builds.build(photos, tmp_path / "out", *flags(kind, pool))
    assert (failed.code, failed.out) == (4, "")
    assert failed.err.startswith(
        "shardfeed: the engine gave up: ValueError: a bug [while running 'EncodeParts/Encode']\nRerun the same command"
    )
    assert failed.err.endswith(" in broken\nValueError: a bug\n")
    assert failed.err.count("Traceback") == 1


def test_a_killed_worker_of_beam_s_job_service_is_told_without_a_traceback(
    flags: Flags, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    hook.write_text(DYING)
    failed = builds.build(photos, tmp_path / "out", *flags("job service", pool))
    assert (failed.code, failed.out) == (4, "")
    assert re.fullmatch(
        r"shardfeed: the engine gave up: \w+Error: .+\nRerun the same command to carry on; .+\n", failed.err
    )


# A machine on which the output may not be written: what the store says there of every file.
DENIED = """
import errno
from shardfeed.transforms.stores.local import WritableLocalStore
def denied(store, folder):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
WritableLocalStore._mkdir = denied
"""


def test_workers_that_may_not_write_the_output_are_told_as_a_launcher_that_may_not(
    flags: Flags, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    hook.write_text(DENIED)
    failed = builds.build(photos, tmp_path / "out", *flags("Prism", pool))
    assert (failed.code, failed.out, failed.err) == (
        2,
        "",
        f"shardfeed: cannot write to the output: {tmp_path}/out/_parts/CLAIM (Permission denied). Allowed is a folder that this "
        "user owns or may write to: change its permissions (chmod, chown) or choose another --output.\n",
    )
