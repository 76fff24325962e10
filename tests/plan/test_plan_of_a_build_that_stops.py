"""``shardfeed plan`` where the build would stop: it refuses with the build's own words and exit code, or notes it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfeed.cli.main import main
from shardfeed.errors import ConflictError, IncompleteError, TooManyRejectsError
from shardfeed.format import naming
from shardfeed.pipeline import local
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.plan import command
from shardfeed.pipeline.plan.command import plan_build
from shardfeed.pipeline.plan.sample import Calibration
from shardfeed.pipeline.run_build import run_build
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.verdict import RejectLimit, parse_limit
from tests.kit.commands import photo, write_photos

OPTIONS = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=2)
ALL = parse_limit("100%")


def _tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in sorted(folder.rglob("*"))}


def _foreign(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("…")
    return tmp_path / "out"


def _foreign_beside_a_claim(tmp_path: Path) -> Path:
    _damaged(tmp_path)
    (tmp_path / "out" / "notes.txt").write_text("…")
    return tmp_path / "out"


def _shards_of_nobody(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train-00000-of-00001.tfrecord").write_bytes(b"x")
    return tmp_path / "out"


def _a_folder_for_the_claim(tmp_path: Path) -> Path:
    (tmp_path / "out" / naming.CLAIM).mkdir(parents=True)
    return tmp_path / "out"


def _damaged(tmp_path: Path) -> Path:
    (tmp_path / "out" / "_parts").mkdir(parents=True)
    (tmp_path / "out" / naming.CLAIM).write_text("{")
    return tmp_path / "out"


def _a_file(tmp_path: Path) -> Path:
    (tmp_path / "afile").write_text("…")
    return tmp_path / "afile"


def _below_a_file(tmp_path: Path) -> Path:
    return _a_file(tmp_path) / "x"


def _a_link_to_a_file(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(_a_file(tmp_path))
    return tmp_path / "link"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (_foreign, 5),
        (_foreign_beside_a_claim, 5),
        (_shards_of_nobody, 5),
        (_a_folder_for_the_claim, 5),
        (_damaged, 5),
        (_a_file, 2),
        (_below_a_file, 2),
        (_a_link_to_a_file, 2),
    ],
)
def test_an_output_that_the_build_refuses_is_refused(
    made: Callable[[Path], Path], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    flags = ["--input", str(photos), "--output", str(made(tmp_path)), "--image_size", "16"]
    before = _tree(tmp_path)

    assert main(["plan", *flags]) == code
    planned = capsys.readouterr()
    assert _tree(tmp_path) == before
    assert main(["build", *flags]) == code
    assert planned == ("", capsys.readouterr().err)


def test_the_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert capsys.readouterr().out.endswith(
        "exit codes: 0 a forecast was made, or the input holds more files than --list_at_most; 2 bad arguments, 4 the input "
        "could\n"
        "not be read; 3 and 5 where it is sure that the build would end with these, with a forecast or the build's own message.\n"
    )


def test_what_a_discard_does_not_remove_is_refused_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=3), _foreign(tmp_path)

    assert main(["plan", "--input", str(photos), "--output", str(out), "--discard_incomplete"]) == 5
    assert "holds files that are not a shardfeed build's: notes.txt." in capsys.readouterr().err


def _stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildConfig:
    """An output in which a build has stopped before its first shard."""
    photos = write_photos(tmp_path / "photos", cat=3)
    config = BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out"), options=OPTIONS)

    def stops(*_: object) -> None:
        raise IncompleteError("before the first shard")

    with monkeypatch.context() as patched:
        patched.setattr(local, "compose_shard", stops)
        with pytest.raises(IncompleteError):
            run_build(config)
    return config


def test_a_build_that_another_one_can_carry_on_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _stopped(tmp_path, monkeypatch)

    assert plan_build(config).notes == [
        "the output holds an unfinished build of this input with these options, which the build would carry on; see shardfeed "
        f"status {tmp_path}/out"
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
        config = BuildConfig(
            inputs=config.inputs, output=config.output, options=BuildOptions(image=OPTIONS.image, seed=1)
        )
    with pytest.raises(ConflictError, match="is claimed by another build that differs in") as refused:
        run_build(config)

    forecast = plan_build(config)
    assert (forecast.notes, forecast.code) == ([f"the build would stop (exit 5): {refused.value}"], 5)
    forecast = plan_build(BuildConfig(config.inputs, config.output, config.options, discard_incomplete=True))
    assert (forecast.notes, forecast.code) == (
        ["the output holds an unfinished build, which the build would remove first (--discard_incomplete)"], 0
    )  # fmt: skip


def test_a_claim_that_nobody_can_read_is_removed_with_the_rest(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    config = BuildConfig((str(photos),), str(_damaged(tmp_path)), OPTIONS, discard_incomplete=True)

    assert plan_build(config).notes == [
        "the output holds an unfinished build, which the build would remove first (--discard_incomplete)"
    ]
    run_build(config)


def test_a_discard_that_has_not_ended_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    (tmp_path / "out" / "_parts").mkdir(parents=True)
    (tmp_path / "out" / naming.CLAIM).write_text(json.dumps({"fingerprint": "discarding", "config": {}}))
    flags = ["--input", str(photos), "--output", str(tmp_path / "out")]

    assert main(["plan", *flags]) == 5
    assert (
        "  note       an unfinished build in the output is being discarded, or that was stopped: until it has ended a build "
        "there stops (exit 5), unless it discards too (--discard_incomplete)"
    ) in capsys.readouterr().out.splitlines()
    assert main(["build", *flags]) == 5


@pytest.mark.parametrize("splits", ["train", "folders"])
def test_a_class_without_a_usable_image_is_foretold(splits: str, tmp_path: Path) -> None:
    """``--max_rejected`` does not help there."""
    photos = tmp_path / "photos"
    write_photos(photos / "train" if splits == "folders" else photos, cat=5, dog=5, emu=5)
    for path in photos.rglob("dog/*.jpg"):
        os.truncate(path, path.stat().st_size // 2)
    options = BuildOptions(image=ImageOptions(height=16, width=16), splits=splits)
    config = BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out"), options=options, max_rejected=ALL)

    forecast = plan_build(config)
    assert (forecast.notes, forecast.code) == (
        [
            "no image that was read of 1 class(es) can be used: dog (5 of 5 read); with a class that gives no record the build "
            "would publish nothing (exit 3)"
        ],
        3,
    )
    with pytest.raises(TooManyRejectsError, match=r"no image of 1 class\(es\) can be used: dog"):
        run_build(config)


@pytest.mark.parametrize(
    ("sample", "bad", "noted"),
    [(100, range(19), False), (100, range(20), True), (1, range(20), False)],
    ids=["one of its images is good", "none is", "too few were read to say"],
)
def test_a_class_is_given_up_only_where_several_images_show_it(
    sample: int, bad: range, noted: bool, tmp_path: Path
) -> None:
    photos = write_photos(tmp_path / "photos", cat=20, dog=20)
    for i in bad:
        (photos / "dog" / f"{i:03}.jpg").write_bytes(b"")
    config = BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out"), max_rejected=RejectLimit(count=40))

    assert any("dog (20 of 20 read)" in note for note in plan_build(config, sample=sample).notes) is noted
    assert any("class" in note for note in plan_build(config, sample=sample).notes) is noted


def test_a_class_of_which_not_all_was_read_may_still_give_a_record(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=40, dog=40)
    for path in sorted(photos.glob("dog/*.jpg"))[1:]:
        path.write_bytes(path.read_bytes()[:-200])
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=ALL)
    (note,) = plan_build(config, sample=12).notes

    shown = re.fullmatch(
        r"no image that was read of 1 class\(es\) can be used: dog \((\d+) of 40 read\); with a class that gives no record the "
        r"build may publish nothing \(exit 3\)",
        note,
    )
    assert shown is not None
    assert 3 <= int(shown[1]) < 40
    assert plan_build(config, sample=12).code == 0
    run_build(config)


def test_an_image_that_changes_while_it_is_read_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is still being copied."""
    photos = write_photos(tmp_path / "photos", cat=6, dog=1)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=ALL)
    calibrate = command.calibrate

    def copied(*args: Any) -> Calibration:
        os.utime(photos / "dog" / "000.jpg")
        return calibrate(*args)

    monkeypatch.setattr(command, "calibrate", copied)
    forecast = plan_build(config)
    assert (forecast.rejected, forecast.notes, forecast.code) == ({"CHANGED": 1}, [], 0)


def test_where_no_image_at_all_can_be_used_no_class_is_named(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    for path in photos.rglob("*.jpg"):
        path.write_bytes(b"")
    forecast = plan_build(BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=ALL))

    assert forecast.notes == ["none of the images read for train can be used: the build would publish nothing (exit 3)"]


@pytest.mark.parametrize(
    ("limit", "word", "code"), [("50%", "would", 3), ("99%", "may", 0)], ids=["far too many", "perhaps too many"]
)
def test_only_an_estimate_far_above_the_limit_is_sure(limit: str, word: str, code: int, tmp_path: Path) -> None:
    """Of 200 images 60 are read, of which none can be used."""
    photos = write_photos(tmp_path / "photos", cat=200)
    for path in photos.rglob("*.jpg"):
        path.write_bytes(b"x" * 10)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS, max_rejected=parse_limit(limit))
    forecast = plan_build(config, sample=60)

    allowed = 100 if limit == "50%" else 198
    assert (forecast.notes, forecast.code) == (
        [
            "none of the images read for train can be used: the build may publish nothing (exit 3)",
            f"about 200 images would be rejected and --max_rejected allows {allowed}: the build {word} publish nothing (exit 3)",
        ],
        code,
    )


def test_a_machine_type_of_unknown_size_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=3), tmp_path / "out"

    flags = ["--runner", "DirectRunner", "--worker_machine_type", "e2-micro", "--json"]
    assert main(["plan", "--input", str(photos), "--output", str(out), *flags]) == 0
    raw = json.loads(capsys.readouterr().out)
    assert raw["dataflow"]["vcpus"] == 4
    assert raw["notes"] == [
        "machine type e2-micro: its size is not known here; hours and dollars are those of n2-standard-4 (4 vCPUs)"
    ]
