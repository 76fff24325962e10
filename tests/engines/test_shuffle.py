"""What an engine groups is small: no image's bytes cross a shuffle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from apache_beam.runners.portability.fn_api_runner.execution import GroupingBuffer

from shardfeed.cli.main import main
from tests.kit import builds
from tests.kit.images import make_photos


def test_no_image_crosses_a_shuffle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = make_photos(tmp_path / "photos", each=3)
    for path in photos.rglob("*.jpg"):
        path.write_bytes(path.read_bytes() + random.Random(str(path)).randbytes(20_000))  # which no coder makes smaller
    sizes: list[int] = []
    append = GroupingBuffer.append

    def noted(self: GroupingBuffer, elements: bytes) -> None:
        sizes.append(len(elements))
        append(self, elements)

    monkeypatch.setattr(GroupingBuffer, "append", noted)
    flags = ("--image_size", "160", "--image_format", "raw", *builds.DIRECT)
    assert main(builds.build_args(photos, tmp_path / "out", *flags)) == 0
    assert len(sizes) >= 7  # groupings that are given anything where no image is rejected
    assert sum(sizes) < 20_000 / 5, sizes
