"""P4: after SIGKILL anywhere the same command completes, redoes no finished part, same bytes.

``test_killed_at_every_step.py`` proves it for every step and for both drivers; here is what a kill
at one step does not show.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

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


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped bit"])
@pytest.mark.parametrize("what", ["part", "sidecar"])
def test_a_finished_part_that_is_damaged_is_made_again(what: str, damage: str, tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    few_parts = partial(hooks.parts_a_shard, 3)
    builds.built(photos, tmp_path / "whole", hooks=[few_parts])
    out = tmp_path / "out"
    assert builds.build(photos, out, hooks=[few_parts, hooks.kill_at_publishing]).code == -9
    names = sorted(out.glob("_parts/*/train/*-*" if what == "part" else "_parts/*/train/*.json"))
    data = names[0].read_bytes()
    middle = len(data) // 2
    names[0].write_bytes(
        {
            "cut": data[:-1],
            "emptied": b"",
            "flipped bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        }[damage]
    )
    log = tmp_path / "images"
    ended = builds.built(photos, out, hooks=[few_parts, partial(hooks.count_images, log)])
    assert (ended.err, disk.digests(out)) == ("", disk.digests(tmp_path / "whole"))
    assert 0 < log.stat().st_size < 12


def test_parts_of_another_fingerprint_are_not_taken_over(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    assert builds.build(photos, out, "--quality", "50", hooks=[hooks.kill_at_publishing]).code == -9
    assert builds.build(photos, out).code == 5
    builds.built(photos, out, "--discard_incomplete")
    builds.built(photos, tmp_path / "whole")
    assert disk.digests(out) == disk.digests(tmp_path / "whole")


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_ctrl_c_ends_with_exit_4_and_the_same_command_carries_on(driver: str, tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    ended = builds.build(photos, out, *builds.DRIVERS[driver], hooks=[partial(hooks.signal_at_image, 5, SIGINT)])
    assert ended.code == 4
    assert "rerun the same command to carry on" in ended.err
    assert "Traceback" not in ended.err
    builds.built(photos, out, *builds.DRIVERS[driver])
    builds.built(photos, tmp_path / "whole")
    assert disk.digests(out) == disk.digests(tmp_path / "whole")
