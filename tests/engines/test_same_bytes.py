"""Every engine that the tests can have runs the same job to the same bytes, from workers that hold only the source package."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.conftest import FLAGS
from tests.engines.servers import Engine, Server
from tests.engines.worker import Worker
from tests.promises import builds, disk, hooks

# A worker's own account: its process, and where its code comes from.
WITNESS = """
from transforms import encoding
process = encoding.process_image
def witnessed(*args, **kwargs):
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} {{os.getcwd()}} {{encoding.__file__}}\\n")
    return process(*args, **kwargs)
encoding.process_image = witnessed
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


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        pytest.param("Prism", 1, id="Prism"),
        pytest.param("job service", 2, id="Beam's job service with two worker processes"),
    ],
)
def test_workers_that_have_only_beam_and_the_source_package(
    kind: str, workers: int, prism_program: Path, worker: Worker, pool: Server, hook: Path, photos: Path,
    reference: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    log = tmp_path / "witness"
    hook.write_text(WITNESS.format(log=str(log)))
    start: AbstractContextManager[Engine] = (
        servers.prism(prism_program, pool, tmp_path)
        if kind == "Prism"
        else servers.job_service(worker, pool, tmp_path, workers=workers)
    )
    with start as engine:
        builds.built(photos, tmp_path / "out", *FLAGS, *engine.flags, env={"TMPDIR": str(tmp_path)})

    assert disk.digests(tmp_path / "out") == reference
    said = [line.split() for line in log.read_text().splitlines()]
    assert (len({pid for pid, _, _ in said}), {(cwd, file) for _, cwd, file in said}) == (
        workers,
        {("/", str(worker.site / "transforms" / "encoding.py"))},
    )
