"""``shardfeed plan`` of a build that would stop: refused with the build's own message, or noted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardfeed.cli.main import main
from shardfeed.errors import ConflictError, IncompleteError, TooManyRejectsError
from shardfeed.format import naming
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.config.values import parse_rejected
from shardfeed.pipeline.plan.command import plan_build
from shardfeed.pipeline.plan.notes import Note, about_machine, about_rejects
from shardfeed.pipeline.plan.sample import Calibration, Chosen, SplitSample, Stratum, Trial, calibrate
from shardfeed.pipeline.run_build import run_build
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.publish import composing
from tests.kit import disk
from tests.kit.commands import photo, write_photos

OPTIONS = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=2)
ALL = parse_rejected("100%")
DISCARDS = Note("the output holds an unfinished build, which the build would remove first (--discard_incomplete)")


def _lost_dogs(read: str, word: str, code: int) -> Note:
    return Note(
        f"no image that was read of 1 class can be used: dog ({read} read); with a class that gives no record the build "
        f"{word} publish nothing (exit 3)",
        code,
    )


def _config(tmp_path: Path, photos: int = 3, **changes: Any) -> BuildConfig:
    write_photos(tmp_path / "photos", cat=photos)
    return BuildConfig((f"{tmp_path}/photos",), f"{tmp_path}/out", **{"options": OPTIONS, **changes})


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


FOREIGN = {"out/notes.txt": "…"}
UNREADABLE = {f"out/{naming.CLAIM}": "{"}


@pytest.mark.parametrize(
    ("files", "output", "code"),
    [
        (FOREIGN | UNREADABLE, "out", 5),
        (UNREADABLE, "out", 5),
        ({"file": "…"}, "file/x", 2),
        ({"file": "…"}, "link", 2),
    ],
    ids=["foreign beside a claim", "a damaged claim", "below a file", "a link to a file"],
)
def test_an_output_that_the_build_refuses_is_refused(
    files: Mapping[str, str], output: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    _write(tmp_path, files)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    flags = ["--input", str(photos), "--output", str(tmp_path / output), "--image_size", "16"]
    before = disk.snapshot(tmp_path)

    assert main(["plan", *flags]) == code
    planned = capsys.readouterr()
    assert disk.snapshot(tmp_path) == before
    assert main(["build", *flags]) == code
    assert planned == ("", capsys.readouterr().err)


def test_what_a_discard_does_not_remove_is_refused_all_the_same(tmp_path: Path) -> None:
    _write(tmp_path, FOREIGN)
    with pytest.raises(ConflictError, match=r"holds files that are not a shardfeed build's: notes\.txt\."):
        plan_build(_config(tmp_path, discard_incomplete=True))


def _stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildConfig:
    """An output in which a build has stopped before its first shard."""
    config = _config(tmp_path)

    def stops(*_: object) -> None:
        raise IncompleteError("before the first shard")

    with monkeypatch.context() as patched:
        patched.setattr(composing, "compose_shard", stops)
        with pytest.raises(IncompleteError):
            run_build(config)
    return config


def test_a_build_that_another_one_can_carry_on_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _stopped(tmp_path, monkeypatch)

    assert plan_build(config).notes == [
        Note(
            "the output holds an unfinished build of this input with these options, which the build would carry on; see "
            f"shardfeed status {tmp_path}/out"
        )
    ]
    run_build(config)


@pytest.mark.parametrize("changed", ["options", "input"])
def test_a_claim_that_the_build_would_stop_at_is_noted_in_the_builds_words(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _stopped(tmp_path, monkeypatch)
    if changed == "input":
        (tmp_path / "photos" / "cat" / "new.jpg").write_bytes(photo(9))
    else:
        config = replace(config, options=replace(OPTIONS, seed=1))
    with pytest.raises(ConflictError, match="is claimed by another build that differs in") as refused:
        run_build(config)

    assert plan_build(config).notes == [Note(f"the build would stop (exit 5): {refused.value}", 5)]
    assert plan_build(replace(config, discard_incomplete=True)).notes == [DISCARDS]


def test_a_claim_that_nobody_can_read_is_removed_with_the_rest(tmp_path: Path) -> None:
    _write(tmp_path, UNREADABLE)
    config = _config(tmp_path, discard_incomplete=True)

    assert plan_build(config).notes == [DISCARDS]
    run_build(config)


def test_a_discard_that_has_not_ended_is_noted(tmp_path: Path) -> None:
    _write(tmp_path, {f"out/{naming.CLAIM}": json.dumps({"fingerprint": "discarding", "config": {}})})
    config = _config(tmp_path)

    assert plan_build(config).notes == [
        Note(
            "another command is discarding the unfinished build in the output, or was stopped while it did: until that has "
            "ended a build there stops (exit 5), unless it discards too (--discard_incomplete)",
            5,
        )
    ]
    with pytest.raises(ConflictError):
        run_build(config)


@pytest.mark.parametrize("splits", ["train", "folders"])
def test_a_class_without_a_usable_image_is_foretold(splits: str, tmp_path: Path) -> None:
    """``--max_rejected`` does not help there."""
    photos = tmp_path / "photos"
    write_photos(photos / "train" if splits == "folders" else photos, cat=5, dog=5, emu=5)
    for path in photos.rglob("dog/*.jpg"):
        os.truncate(path, path.stat().st_size // 2)
    options = BuildOptions(image=ImageOptions(height=16, width=16), splits=splits)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), options, max_rejected=ALL)

    assert plan_build(config).notes == [_lost_dogs("5 of 5", "would", 3)]
    with pytest.raises(TooManyRejectsError, match="no image of 1 class can be used: dog"):
        run_build(config)


@pytest.mark.parametrize(
    ("sample", "bad", "notes"),
    [(100, range(19), []), (100, range(20), [_lost_dogs("20 of 20", "would", 3)]), (1, range(20), [])],
    ids=["one of its images is good", "none is", "too few were read to say"],
)
def test_a_class_is_given_up_only_if_several_images_show_it(
    sample: int, bad: range, notes: list[Note], tmp_path: Path
) -> None:
    photos = write_photos(tmp_path / "photos", cat=20, dog=20)
    for i in bad:
        (photos / "dog" / f"{i:03}.jpg").write_bytes(b"")
    config = BuildConfig((str(photos),), str(tmp_path / "out"), max_rejected=Limit(count=40))

    assert plan_build(config, sample=sample).notes == notes


def test_a_class_of_which_not_all_was_read_may_still_give_a_record(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=40, dog=40)
    for path in sorted(photos.glob("dog/*.jpg"))[1:]:
        path.write_bytes(path.read_bytes()[:-200])
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=ALL)
    forecast = plan_build(config, sample=12)

    read = sum(ref.key.startswith(b"dog/") for ref, _ in forecast.sample.trials)
    assert 3 <= read < 40
    assert forecast.notes == [_lost_dogs(f"{read} of 40", "may", 0)]
    run_build(config)


def test_an_image_that_changes_while_it_is_read_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is still being copied."""
    photos = write_photos(tmp_path / "photos", cat=6, dog=1)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=ALL)

    def copied(encoder: SliceEncoder, chosen: Sequence[Chosen], threads: int) -> Calibration:
        os.utime(photos / "dog" / "000.jpg")
        return calibrate(encoder, chosen, threads)

    monkeypatch.setattr("shardfeed.pipeline.plan.command.calibrate", copied)
    forecast = plan_build(config)
    assert (forecast.sample.rejected, forecast.notes) == ({"CHANGED": 1}, [])


def test_if_no_image_can_be_used_no_record_is_promised_and_no_class_is_named(tmp_path: Path) -> None:
    config = _config(tmp_path, max_rejected=ALL)
    for path in (tmp_path / "photos").rglob("*.jpg"):
        path.write_bytes(b"")
    forecast = plan_build(config)

    assert forecast.notes == [
        Note("none of the images read for train can be used: the build would publish nothing (exit 3)", 3)
    ]
    assert "3 images, about 0 records, 0 B, in no shard\n" in forecast.to_text()


def test_more_rejects_than_allowed_are_foretold(tmp_path: Path) -> None:
    config = _config(tmp_path, max_rejected=Limit(count=1))
    for i in range(2):
        (tmp_path / "photos" / "cat" / f"bad{i}.jpg").write_bytes(b"")

    text = "about 2 images would be rejected and --max_rejected allows 1: the build would publish nothing (exit 3)"
    assert plan_build(config).notes == [Note(text, 3)]
    assert plan_build(replace(config, max_rejected=Limit())).notes == []


@pytest.mark.parametrize(
    ("allowed", "word", "code"),
    [(100, "would", 3), (198, "may", 0)],
    ids=["far too many", "perhaps too many"],
)
def test_only_an_estimate_far_above_the_limit_is_sure(allowed: int, word: str, code: int) -> None:
    """Of 200 images 60 were read, of which none can be used."""
    stratum = Stratum("train", 200, trials=[Trial(0, "FORMAT")] * 60)
    sample = Calibration({"train": SplitSample([stratum])}, [], 1.0)

    text = f"about 200 images would be rejected and --max_rejected allows {allowed}: the build {word} publish nothing (exit 3)"
    assert list(about_rejects(sample, allowed=allowed)) == [
        Note("none of the images read for train can be used: the build may publish nothing (exit 3)"),
        Note(text, code),
    ]


def test_a_machine_type_of_unknown_size_is_noted_and_counted_as_the_default(tmp_path: Path) -> None:
    engine = Engine("DirectRunner", ("--worker_machine_type", "e2-micro"))
    forecast = plan_build(_config(tmp_path, engine=engine))

    assert (forecast.cloud.vcpus, forecast.notes) == (4, [*about_machine("e2-micro")])
