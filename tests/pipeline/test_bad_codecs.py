"""A file that crashes or hangs a codec, or eats its memory, costs one image and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.bad_codec import bad_codec
from tests.kit.images import make_photos, photo, write

BAD: list[Callable[[], None]] = [bad_codec, partial(hooks.processes, 1)]
GOOD = {f"{label}/{number:03d}.jpg" for label in ("cat", "dog") for number in range(20)}
EXPECTED = {
    "crash": ("CRASHED", "the decoder crashes with SIGSEGV"),
    "leave": ("CRASHED", "the decoder ends its process with code 7"),
    "spin": ("TIMEOUT", "the decoder takes longer than 1 s (--image_timeout)"),
    "sleep": ("TIMEOUT", "the decoder takes longer than 1 s (--image_timeout)"),
    "eat": ("MEMORY", "the decoder asks for more than 2.0 GiB"),
    "kill": ("MEMORY", "the system ended the decoder twice; it does that if memory runs out"),
}


def photos_with(root: Path, *deeds: str) -> Path:
    """Forty good photos of two classes, and one that does each deed."""
    make_photos(root, each=20)
    for number, deed in enumerate(deeds):
        write(root, f"cat/{deed}-{number:03d}.jpg", photo(number) + b"#" + deed.encode())
    return root


def rejects(out: Path) -> dict[str, tuple[str, str]]:
    return {line["key"]: (line["reason"], line["detail"]) for line in disk.rejects(out)}


def test_each_is_a_reject_with_its_reason_and_no_good_image_is_lost(tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos", *EXPECTED), tmp_path / "out"
    ended = builds.built(photos, out, "--image_timeout", "1", hooks=BAD)
    assert {key.decode() for key in disk.keys(out)} == GOOD
    assert rejects(out) == {f"cat/{deed}-{n:03d}.jpg": told for n, (deed, told) in enumerate(EXPECTED.items())}
    assert "rejected (CRASHED 2, MEMORY 2, TIMEOUT 2)" in ended.out
    assert ended.err.count("a process that encodes ended with code") == 1  # once, however many die


def test_two_in_one_part_and_three_in_another_cost_five_images(tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos", "crash", "crash", "leave", "leave", "crash"), tmp_path / "out"
    flags = ("--splits", "train=0.5,test=0.5", "--keep_parts")
    builds.built(photos, out, *flags, hooks=[*BAD, partial(hooks.parts_a_shard, 1)])
    heads = [path.read_bytes().partition(b"\n")[0] for path in (out / "_parts").rglob("0*.json")]
    assert sorted(len(json.loads(head)["rejects"]) for head in heads) == [2, 3]
    assert {key.decode() for key in disk.keys(out)} == GOOD
    assert {reason for reason, _ in rejects(out).values()} == {"CRASHED"}
    assert len(rejects(out)) == 5


def test_a_rerun_takes_such_rejects_from_the_finished_parts(tmp_path: Path) -> None:
    photos, out, log = photos_with(tmp_path / "photos", "crash"), tmp_path / "out", tmp_path / "images"
    ended = builds.build(photos, out, "--max_rejected", "0", hooks=BAD)
    assert (ended.code, "1 of 41 images cannot be used (CRASHED 1)" in ended.err) == (3, True), ended.err
    again = builds.built(photos, out, "--max_rejected", "1", hooks=[partial(hooks.count_images, log), *BAD])
    assert (again.err, log.read_bytes(), rejects(out)) == ("", b"", {"cat/crash-000.jpg": EXPECTED["crash"]})


def test_nothing_but_such_images_ends_with_exit_code_3(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for number in range(5):
        write(photos, f"cat/{number}.jpg", photo(number) + b"#crash")
    hooked: list[Callable[[], None]] = [bad_codec, partial(hooks.processes, 2)]
    ended = builds.build(photos, tmp_path / "out", "--max_rejected", "4", hooks=hooked)
    assert ended.code == 3
    assert "5 of 5 images cannot be used (CRASHED 5); --max_rejected allows 4" in ended.err


def test_a_build_is_given_up_when_too_many_images_take_too_long(tmp_path: Path) -> None:
    """With Beam, whose graph hands both limits on; the local build's are proved above."""
    photos, out = photos_with(tmp_path / "photos", *["spin"] * 3), tmp_path / "out"
    flags = ("--image_timeout", "1", "--max_rejected", "1", *builds.DIRECT)
    ended = builds.build(photos, out, *flags, hooks=BAD)
    assert (ended.code, (out / "manifest.json").exists()) == (3, False)
    assert "2 images took longer than --image_timeout 1 each; --max_rejected allows 1." in ended.err


def test_a_bug_of_ours_in_a_process_fails_the_build_and_says_where(tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos"), tmp_path / "out"
    ended = builds.build(
        photos, out, hooks=[hooks.forks, partial(hooks.fail_from_image, 3), partial(hooks.processes, 1)]
    )
    assert (ended.code, (out / "manifest.json").exists()) == (1, False)
    assert "ZeroDivisionError: a bug" in ended.err
    assert "in fail" in ended.err  # the traceback of the process


def test_memory_that_runs_out_in_a_process_makes_its_images_one_by_one(tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos"), tmp_path / "out"
    ended = builds.built(photos, out, hooks=[hooks.forks, hooks.no_memory, partial(hooks.processes, 1)])
    assert (ended.err, {key.decode() for key in disk.keys(out)}) == ("", GOOD)


@pytest.mark.parametrize("times", [1, 3])
def test_the_program_that_starts_a_process_per_image_may_be_ended_too(times: int, tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos", "crash"), tmp_path / "out"
    ended = builds.build(photos, out, hooks=[*BAD, partial(hooks.end_isolated, times)])
    if times == 1:
        assert (ended.code, rejects(out)) == (0, {"cat/crash-000.jpg": EXPECTED["crash"]}), ended.err
    else:
        assert ended.code == 4
        assert "the process that makes images one by one cannot be started, or is ended from outside" in ended.err


@pytest.mark.parametrize("hangs_in", ["a process of the pool", "a process of its own"])
def test_ctrl_c_does_not_wait_for_a_codec_that_hangs(hangs_in: str, tmp_path: Path) -> None:
    photos, out = photos_with(tmp_path / "photos", "sleep"), tmp_path / "out"
    isolated = hangs_in == "a process of its own"
    hooked = [*BAD, hooks.hang_at_once if isolated else hooks.stop_at_hang]
    ended = builds.build(photos, out, "--image_timeout", "1000", hooks=hooked)
    assert (ended.code, "stopped. What is finished, if anything, is kept" in ended.err) == (4, True), ended.err
