"""P8: two builds of one output cannot corrupt each other; nothing is ever overwritten."""

from __future__ import annotations

import json
import os
import select
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from shardfeed.format import naming
from tests.kit import builds, disk, hooks, steps
from tests.kit.builder import Request
from tests.kit.images import make_photos, photo, write
from tests.kit.metadata import write_table

_ONE_PART = partial(hooks.parts_a_shard, 1)
_MANY_PARTS = partial(hooks.parts_a_shard, 64)


@dataclass(frozen=True, eq=False)
class Meeting:
    """The first build was held before its call ``call`` while the second ran to its end."""

    call: str
    first: int
    second: int
    err: str
    digests: dict[str, str]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    photos = make_photos(tmp_path_factory.mktemp("p08") / "photos", each=3)
    write(photos, "dog/copy.jpg", (photos / "cat" / "000.jpg").read_bytes())
    (photos / "dog" / "000.jpg").unlink()
    return photos


@pytest.fixture(scope="module")
def calls(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The calls of the store in a build of one part, by number."""
    folder = tmp_path_factory.mktemp("calls")
    builds.built(photos, folder / "out", hooks=[_ONE_PART, partial(steps.record_calls, folder / "log")])
    return dict(enumerate((folder / "log").read_text().splitlines()))


@dataclass(frozen=True)
class Alone:
    """Digests of builds of one part that no other one met: a plain one, and one of ``OTHER``."""

    plain: dict[str, str]
    other: dict[str, str]


OTHER = ("--quality", "50")


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    folder = tmp_path_factory.mktemp("alone")
    builds.built(photos, folder / "plain", hooks=[_ONE_PART])
    builds.built(photos, folder / "other", *OTHER, hooks=[_ONE_PART])
    return Alone(disk.digests(folder / "plain"), disk.digests(folder / "other"))


def meet_at(calls: dict[int, str], folder: Path, photos: Path, *flags: str) -> list[Meeting]:
    """Two builds that meet at each of these calls of the store; the second has ``flags`` of its own."""

    def meet(number: int) -> Meeting:
        out, answer = folder / str(number), folder / f"answer-{number}"
        second = Request(builds.build_args(photos, out, *flags), (_ONE_PART,))
        first = builds.build(photos, out, hooks=[_ONE_PART, partial(steps.run_before_call, number, second, answer)])
        code, _, said = answer.read_text().partition("\n") if answer.exists() else ("0", "", "")
        digests = disk.digests(out)
        shutil.rmtree(out)
        return Meeting(f"{number}: {calls[number]}", first.code, int(code), first.err + said, digests)

    return builds.each(meet, calls)


def test_two_builds_of_the_same_meet_at_any_call_and_both_succeed(
    photos: Path, calls: dict[int, str], alone: Alone, tmp_path: Path
) -> None:
    met = meet_at(calls, tmp_path, photos)
    assert len(met) > 25
    assert {m.call: (m.first, m.second, m.err) for m in met if (m.first, m.second, m.err) != (0, 0, "")} == {}
    assert {m.call: sorted(m.digests) for m in met if m.digests != alone.plain} == {}


def test_two_different_builds_meet_at_any_step_and_one_of_them_succeeds(
    photos: Path, calls: dict[int, str], alone: Alone, tmp_path: Path
) -> None:
    # Once the claim is there, the second build changes nothing. So where the first one reads, they meet
    # as they do at its next step on the disk.
    claim = next(number for number, call in calls.items() if call == f"create {naming.CLAIM}")
    some = {n: call for n, call in calls.items() if n <= claim or call.split()[0] in ("create", "compose", "delete")}
    met = meet_at(some, tmp_path, photos, *OTHER)
    assert {m.call: (m.first, m.second) for m in met if sorted((m.first, m.second)) != [0, 5]} == {}
    assert {m.call: sorted(m.digests) for m in met if m.digests != (alone.plain if m.first == 0 else alone.other)} == {}
    assert {m.first for m in met} == {0, 5}
    assert [m.call for m in met if "--quality (there " not in m.err] == []


def test_a_build_that_is_discarded_while_it_runs_publishes_nothing_of_its_own(
    photos: Path, calls: dict[int, str], alone: Alone, tmp_path: Path
) -> None:
    met = meet_at(calls, tmp_path, photos, *OTHER, "--discard_incomplete")
    ends = {m.call: (m.first, m.second, m.err) for m in met}
    assert {call: end for call, end in ends.items() if end[:2] not in ((0, 5), (5, 0), (4, 0))} == {}
    # The first may leave parts behind, which the next build sweeps; it changes no published byte.
    published = {m: {name: digest for name, digest in m.digests.items() if not name.startswith("_parts/")} for m in met}
    whole = {m: alone.plain if m.first == 0 else alone.other for m in met}
    assert {m.call: sorted(found) for m, found in published.items() if found != whole[m]} == {}


@pytest.mark.parametrize(
    ("flags", "killed"),
    [
        pytest.param(OTHER, partial(hooks.before_manifest, hooks.kill_self), id="by another build"),
        pytest.param((), hooks.kill_at_publishing, id="by the same build"),  # whose claim is ours, but for its files
    ],
)
def test_a_build_that_is_discarded_before_its_manifest_does_not_publish(
    flags: tuple[str, ...], killed: Callable[[], None], photos: Path, alone: Alone, tmp_path: Path
) -> None:
    out, answer = tmp_path / "out", tmp_path / "answer"
    other = Request(builds.build_args(photos, out, *flags, "--discard_incomplete"), (_ONE_PART, killed))
    run_other = partial(hooks.run_other, other, answer)
    ended = builds.build(photos, out, hooks=[_ONE_PART, partial(hooks.before_manifest, run_other)])
    assert (ended.code, answer.read_text()) == (4, "-9\n")
    assert "was discarded by another command (--discard_incomplete) while it ran. Nothing was published." in ended.err
    assert naming.MANIFEST not in disk.files(out)
    builds.built(photos, out, *flags, hooks=[_ONE_PART])
    assert disk.digests(out) == (alone.other if flags else alone.plain)


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_the_second_of_two_different_builds_ends_before_it_decodes_anything(
    driver: str, photos: Path, tmp_path: Path
) -> None:
    out, answer, log = tmp_path / "out", tmp_path / "answer", tmp_path / "images"
    args = builds.build_args(photos, out, *OTHER, *builds.DRIVERS[driver])
    other = Request(args, (partial(hooks.count_images, log),))
    builds.built(photos, out, hooks=[partial(hooks.act_at_image, 3, partial(hooks.run_other, other, answer))])
    code, said = answer.read_text().split("\n", 1)
    assert (code, log.read_bytes()) == ("5", b"")
    assert "is claimed by another build that differs in --quality (there 95, here 50)." in said
    assert "--discard_incomplete" in said


def test_many_builds_of_the_same_at_the_same_time_all_succeed(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=40), tmp_path / "out"
    ended = builds.each(lambda _: builds.build(photos, out), range(6))
    assert [(one.code, one.err) for one in ended] == [(0, "")] * 6
    builds.built(photos, tmp_path / "alone")
    assert disk.digests(out) == disk.digests(tmp_path / "alone")


@dataclass(frozen=True)
class Worked:
    """How one of two builds ended, and how many images it decoded."""

    code: int
    err: str
    decoded: int


def at_once(
    folder: Path, photos: Path, first: str, second: str, *, in_step: int, flags: Sequence[str] = ()
) -> list[Worked]:
    """Two builds of ``folder``/out, by these drivers.

    The second starts when the first stands before its first image. Each decodes its first
    ``in_step`` images in step with the other, and then goes on. They meet again before the
    manifest: else one could publish and sweep while the other still looks for finished parts.
    """
    pipes = folder / "first", folder / "second"
    for pipe in pipes:
        os.mkfifo(pipe)
    ends = {pipe: os.open(pipe, os.O_RDWR) for pipe in pipes}

    def work(driver: str, own: Path, other: Path) -> Worked:
        log = own.with_suffix(".images")
        log.touch()
        meet = partial(hooks.in_step, in_step, own, other)
        changed: list[Callable[[], None]] = [_MANY_PARTS, meet, partial(hooks.count_images, log), hooks.join_halfway]
        ended = builds.build(photos, folder / "out", *flags, *builds.DRIVERS[driver], hooks=changed)
        os.write(ends[other], b"." * (in_step + 1))  # the other one waits no more for this one, however it ended
        return Worked(ended.code, ended.err, log.stat().st_size)

    with ThreadPoolExecutor() as pool:
        one = pool.submit(work, first, *pipes)
        select.select([ends[pipes[1]]], [], [])
        two = pool.submit(work, second, *reversed(pipes))
    for end in ends.values():
        os.close(end)
    return [one.result(), two.result()]


@pytest.mark.parametrize("first", builds.DRIVERS)
def test_builds_of_the_same_by_either_driver_at_the_same_time_both_succeed(first: str, tmp_path: Path) -> None:
    """With a table, and the same picture under two labels."""
    photos = make_photos(tmp_path / "photos", each=24)
    write(photos, "dog/023.jpg", photo(0))
    rows = [{"file_name": f"{name}/{n:03d}.jpg", "kind": name, "age": n} for name in ("cat", "dog") for n in range(24)]
    table = str(write_table(tmp_path / "t.csv", rows))
    flags = ("--metadata", table, "--label_column", "kind", "--columns", "age")
    worked = at_once(tmp_path, photos, first, "DirectRunner", in_step=1, flags=flags)
    assert [(one.code, one.err) for one in worked] == [(0, "")] * 2
    assert min(one.decoded for one in worked) > 0
    builds.built(photos, tmp_path / "alone", *flags, hooks=[_MANY_PARTS])
    assert disk.manifest(tmp_path / "alone")["duplicates"]["labels"] == 1
    assert disk.digests(tmp_path / "out") == disk.digests(tmp_path / "alone")


@pytest.mark.parametrize(("driver", "other"), [("local", "DirectRunner"), ("DirectRunner", "local")])
def test_a_build_that_the_other_driver_finishes_and_sweeps_meanwhile_succeeds(
    driver: str, other: str, photos: Path, tmp_path: Path
) -> None:
    out, answer = tmp_path / "out", tmp_path / "answer"
    second = Request(builds.build_args(photos, out, *builds.DRIVERS[other]))
    meanwhile = partial(hooks.act_at_image, 3, partial(hooks.run_other, second, answer))
    ended = builds.built(photos, out, *builds.DRIVERS[driver], hooks=[meanwhile])
    assert (ended.err, answer.read_text()) == ("", "0\n")
    builds.built(photos, tmp_path / "alone")
    assert disk.digests(out) == disk.digests(tmp_path / "alone")


def test_a_local_build_that_another_one_overtakes_makes_no_part_again(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=48), tmp_path / "out"
    answer, log = tmp_path / "answer", tmp_path / "images"
    other = Request(builds.build_args(photos, out), (_MANY_PARTS,))
    overtaken = partial(hooks.act_at_image, 3, partial(hooks.run_other, other, answer))
    changed = [_MANY_PARTS, overtaken, partial(hooks.count_images, log)]
    ended = builds.built(photos, out, "--threads", "1", hooks=changed)
    assert (ended.err, answer.read_text()) == ("", "0\n")
    assert log.stat().st_size < 16  # of 96: the parts that it had in hand
    builds.built(photos, tmp_path / "alone", hooks=[_MANY_PARTS])
    assert disk.digests(out) == disk.digests(tmp_path / "alone")


def test_a_local_build_that_joins_another_saves_it_work(tmp_path: Path) -> None:
    photos, images, in_step = make_photos(tmp_path / "photos", each=96), 192, 80
    one, two = at_once(tmp_path, photos, "local", "local", in_step=in_step)
    assert [(one.code, one.err), (two.code, two.err)] == [(0, "")] * 2
    # In step, the builds decode 80 images of different halves. Afterwards they may decode the same:
    # what is left of one half, and the parts in hand, 45 images at most. Builds that begin with the
    # same part decode the same 80 images.
    assert images <= one.decoded + two.decoded < images + 55
    builds.built(photos, tmp_path / "alone", hooks=[_MANY_PARTS])
    assert disk.digests(tmp_path / "out") == disk.digests(tmp_path / "alone")


def test_discard_incomplete_leaves_files_that_are_not_ours_and_the_build_refuses_them(
    photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert builds.build(photos, out, hooks=[hooks.kill_at_publishing]).code == -9
    (out / "thesis.docx").write_bytes(b"years of work")
    refused = builds.build(photos, out, "--discard_incomplete")
    assert refused.code == 5
    assert "holds files that are not a shardfeed build's: thesis.docx" in refused.err
    assert (out / "thesis.docx").read_bytes() == b"years of work"


# ---- a second build after the first, given an output that is complete


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with ``photos`` and their finished dataset ``out``."""
    photos = make_photos(tmp_path / "photos", classes=("train/cat", "train/dog", "test/cat", "test/dog"), each=5)
    builds.built(photos, tmp_path / "out", "--splits", "folders")
    return tmp_path


def again(finished: Path, *flags: str) -> tuple[int, str, str]:
    """Code and output of a rerun that must leave every file as it is: bytes, inode, times."""
    log, before = finished / "images", disk.snapshot(finished / "out")
    ended = builds.build(
        finished / "photos", finished / "out", "--splits", "folders", *flags, hooks=[partial(hooks.count_images, log)]
    )
    assert disk.snapshot(finished / "out") == before
    assert log.read_bytes() == b""
    return ended.code, ended.out, ended.err


def test_the_same_command_again_finds_it_built(finished: Path) -> None:
    code, out, err = again(finished, "--json")
    assert (code, err) == (0, "")
    said, manifest = json.loads(out), disk.manifest(finished / "out")
    assert (said["status"], said["encoded_in_this_run"]) == ("already_built", 0)
    assert (said["fingerprint"], said["written"]) == (manifest["fingerprint"], 20)


def test_other_flags_are_a_conflict_that_names_them_also_if_the_manifest_is_trusted(finished: Path) -> None:
    code, out, err = again(finished, "--quality", "80", "--num_shards", "2", "--trust_manifest")
    assert (code, out) == (5, "")
    assert "--quality (there 95, here 80)" in err
    assert "--num_shards (there not given, here 2)" in err


def test_a_changed_input_is_a_conflict_that_counts_by_split_and_class_unless_the_manifest_is_trusted(
    finished: Path,
) -> None:
    train, test = (finished / "photos" / split / "cat" for split in ("train", "test"))
    then = {folder: sum(path.stat().st_size for path in folder.iterdir()) for folder in (train, test)}
    os.utime(train / "000.jpg", (1, 1))
    code, _, err = again(finished)
    assert code == 5
    assert "the same numbers of images and bytes, but other names or modification times" in err

    write(train, "new.jpg", photo(9))
    (test / "000.jpg").unlink()
    now = {folder: sum(path.stat().st_size for path in folder.iterdir()) for folder in (train, test)}
    code, out, err = again(finished)
    assert (code, out) == (5, "")
    assert [line for line in err.splitlines() if line.startswith("  ")] == [
        f"  test/cat: 5 images, {then[test]:,} bytes then; 4 images, {now[test]:,} bytes now",
        f"  train/cat: 5 images, {then[train]:,} bytes then; 6 images, {now[train]:,} bytes now",
    ]
    assert again(finished, "--trust_manifest")[0] == 0


def test_kept_parts_stay_with_keep_parts_and_go_without(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        builds.built(photos, out, "--keep_parts")
        kept = [name for name in disk.files(out) if name.startswith("_parts/")]
        assert any(name.endswith("00000.json") for name in kept)
        assert naming.CLAIM not in kept
    builds.built(photos, out)
    assert not (out / "_parts").exists()
