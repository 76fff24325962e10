"""What an earlier run finished is said to be kept on every engine, and a rate is that of the images which this run encoded."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.conftest import FLAGS
from tests.engines.worker import Worker
from tests.kit import builds, disk
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server

ENGINES = {
    "in process": (),
    "threads": ("--runner", "DirectRunner", "--direct_running_mode", "multi_threading", "--direct_num_workers", "2"),
    "Prism, a worker in a thread of the launcher": ("--runner", "PrismRunner", "--prism_location", "{prism}"),
    "Prism, a worker of a pool": None,
    "Beam's job service, two workers of a pool": None,
}


@pytest.fixture(params=ENGINES.keys())
def engine(
    request: pytest.FixtureRequest, prism_program: Path, worker: Worker, pool: Server, tmp_path: Path
) -> Iterator[tuple[str, ...]]:
    """The flags of an engine that runs."""
    name, flags = request.param, ENGINES[request.param]
    with contextlib.ExitStack() as stack:
        if flags is not None:
            yield tuple(flag.format(prism=prism_program) for flag in flags)
        elif "Prism" in name:
            yield stack.enter_context(servers.prism(prism_program, pool, tmp_path)).flags
        else:
            yield stack.enter_context(servers.job_service(worker, pool, tmp_path, workers=2)).flags


def _finish_all_parts(photos: Path, out: Path) -> None:
    ended = builds.build(photos, out, *FLAGS, "--max_rejected", "0")
    assert ended.code == 3, ended.err


def _images_of(sidecar: Path) -> int:
    result = json.loads(sidecar.read_bytes().splitlines()[0])["result"]  # a checksum follows
    return int(result["records"]) + sum(result["rejected"].values())


def test_a_run_that_finds_all_parts_finished_tells_of_no_rate(
    engine: tuple[str, ...], photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _finish_all_parts(photos, out)
    ended = builds.built(photos, out, *FLAGS, *engine, env={"TMPDIR": str(tmp_path)})
    assert re.search(r"^  time       [\d.]+ s, 62 images kept from an earlier run$", ended.out, re.MULTILINE), ended.out
    assert disk.digests(out) == reference


def test_a_run_that_finds_some_parts_finished_encodes_the_others(
    engine: tuple[str, ...], photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _finish_all_parts(photos, out)
    lost = sorted(out.glob("_parts/*/train/*.json"))[:3]
    encoded = sum(map(_images_of, lost))
    for sidecar in lost:
        sidecar.unlink()
    ended = builds.built(photos, out, *FLAGS, *engine, "--json", env={"TMPDIR": str(tmp_path)})
    assert 0 < encoded < 62
    assert json.loads(ended.out)["encoded_in_this_run"] == encoded
    assert disk.digests(out) == reference
