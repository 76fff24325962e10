"""Parts of an earlier run are kept on every engine, and a rate counts only this run's images."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.engines.conftest import FLAGS, images_of
from tests.kit import builds, disk

THREADS = ("--runner", "DirectRunner", "--direct_running_mode", "multi_threading", "--direct_num_workers", "2")


def _finish_all_parts(photos: Path, out: Path) -> None:
    ended = builds.build(photos, out, *FLAGS, "--max_rejected", "0")
    assert ended.code == 3, ended.err


def test_a_run_that_finds_all_parts_finished_tells_of_no_rate(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _finish_all_parts(photos, out)
    ended = builds.built(photos, out, *FLAGS, *THREADS)
    assert re.search(r"^  time       [\d.]+ s, 62 images kept from an earlier run$", ended.out, re.MULTILINE), ended.out
    assert disk.digests(out) == reference


def test_a_run_that_finds_some_parts_finished_encodes_the_others(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    lost = _lose_three_parts(photos, out)
    ended = builds.built(photos, out, *FLAGS, *THREADS, "--json")
    assert json.loads(ended.out)["encoded_in_this_run"] == lost
    assert disk.digests(out) == reference


def _lose_three_parts(photos: Path, out: Path) -> int:
    """Finishes all parts, removes three; returns how many images they hold, some and not all."""
    _finish_all_parts(photos, out)
    lost = sorted(out.glob("_parts/*/train/*.json"))[:3]
    images = images_of(lost)
    for sidecar in lost:
        sidecar.unlink()
    assert 0 < images < 62
    return images
