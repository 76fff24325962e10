"""P4: after SIGKILL anywhere the same command completes, redoes no finished part, same bytes.

That holds under each driver, and if the other driver runs the second time.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from shardfeed.format import naming
from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos
from tests.promises.killed import IMAGES, STEPS_OF_GRAPH, KilledBuilds, finished_images


def test_the_process_was_killed_at_every_step(killed_builds: KilledBuilds) -> None:
    assert {str(killed.point): killed.code for killed in killed_builds.killed if killed.code != -9} == {}
    assert {killed.point.kind for killed in killed_builds.killed} >= set(STEPS_OF_GRAPH)


def test_each_driver_finished_what_the_other_left(killed_builds: KilledBuilds) -> None:
    finished = {
        driver: {killed.point.kind for killed in killed_builds.killed if killed.driver == driver}
        for driver in builds.DRIVERS
    }
    assert all(kinds >= set(STEPS_OF_GRAPH) for kinds in finished.values())


def test_the_kills_left_every_kind_of_debris(killed_builds: KilledBuilds) -> None:
    debris = {
        "a torn temporary file": any(killed.point.torn for killed in killed_builds.killed),
        "a temporary file beside the name it got": any(
            k.point.kind.startswith("unlink _parts/tmp") for k in killed_builds.killed
        ),
        "a part without its sidecar": any(_orphans(killed.left) for killed in killed_builds.killed),
        "a shard without its index": any(
            any(n.endswith(".tfrecord") and n + ".idx" not in k.left for n in k.left) for k in killed_builds.killed
        ),
        "a manifest without run.json": any(
            naming.MANIFEST in killed.left and naming.RUN not in killed.left for killed in killed_builds.killed
        ),
        "a manifest beside parts": any(
            naming.MANIFEST in killed.left and naming.CLAIM in killed.left for killed in killed_builds.killed
        ),
    }
    assert [what for what, there in debris.items() if not there] == []


def _orphans(left: tuple[str, ...]) -> list[str]:
    return [n for n in left if n.count("-") == 2 and n.startswith("_parts/") and n.split("-")[0] + ".json" not in left]


def test_the_same_command_completes(killed_builds: KilledBuilds) -> None:
    assert {str(k): (k.again.code, k.again.err) for k in killed_builds.killed if k.again.code or k.again.err} == {}


def test_the_result_has_the_bytes_of_an_undisturbed_build_and_nothing_else_is_left(killed_builds: KilledBuilds) -> None:
    assert {str(k): sorted(k.digests) for k in killed_builds.killed if k.digests != killed_builds.whole} == {}


def test_run_json_is_there_in_the_end(killed_builds: KilledBuilds) -> None:
    assert [str(killed) for killed in killed_builds.killed if not killed.runs] == []


def test_no_finished_part_is_done_again(killed_builds: KilledBuilds) -> None:
    decodable = IMAGES - 1
    expected = {str(k): 0 if naming.MANIFEST in k.left else decodable - k.finished for k in killed_builds.killed}
    assert {str(killed): killed.encoded for killed in killed_builds.killed} == expected
    assert set(expected.values()) > {0, decodable}


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
