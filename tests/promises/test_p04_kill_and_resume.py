"""P4: after SIGKILL anywhere the same command completes, redoes no finished part, same bytes.

``test_killed_at_every_step.py`` proves it for every step and for both drivers; here is what a kill
at one step does not show.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from signal import SIGKILL

from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos
from tests.promises.killed import finished_images


def test_killed_again_and_again_while_encoding_it_gets_on_and_ends_well(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", classes=("a", "b", "c"), each=60), tmp_path / "out"
    draw, finished = random.Random(4), [0]
    while True:
        kill = partial(hooks.signal_at_image, draw.randint(20, 60), SIGKILL)
        ended = builds.build(photos, out, "--num_shards", "3", hooks=[kill])
        if ended.code == 0:
            break
        assert ended.code == -9
        finished.append(finished_images(out))
    assert len(finished) > 3
    assert finished == sorted(finished)
    builds.built(photos, tmp_path / "whole", "--num_shards", "3")
    assert disk.digests(out) == disk.digests(tmp_path / "whole")


def test_finished_parts_that_are_damaged_are_made_again(tmp_path: Path) -> None:
    photos, out, log = make_photos(tmp_path / "photos"), tmp_path / "out", tmp_path / "images"
    few_parts = partial(hooks.parts_a_shard, 3)
    builds.built(photos, tmp_path / "whole", hooks=[few_parts])
    assert builds.build(photos, out, hooks=[few_parts, hooks.kill_at_publishing]).code == -9
    part, sidecar = min(out.glob("_parts/*/train/*-*")), max(out.glob("_parts/*/train/*.json"))
    assert part.name[:5] != sidecar.name[:5]
    part.write_bytes(part.read_bytes()[:-1])
    data = bytearray(sidecar.read_bytes())
    data[len(data) // 2] ^= 1
    sidecar.write_bytes(data)
    ended = builds.built(photos, out, hooks=[few_parts, partial(hooks.count_images, log)])
    assert (ended.err, disk.digests(out)) == ("", disk.digests(tmp_path / "whole"))
    assert 0 < log.stat().st_size < 12
