"""``shardfeed status`` of folders that no build of ours left: what is odd, and an exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from shardfeed.cli.main import main
from shardfeed.errors import UsageError
from shardfeed.format import naming
from shardfeed.pipeline.status.command import build_status
from shardfeed.transforms import stores
from tests.kit import disk
from tests.kit.images import write
from tests.status.outputs import FINGERPRINT, under_way

CLAIM = {"fingerprint": FINGERPRINT, "config": {"seed": 0}}
DEEP = 100_000  # more than any parser that calls itself goes down


def _claimed(out: Path, claim: Mapping[str, object]) -> Path:
    write(out, naming.CLAIM, json.dumps(claim).encode())
    return out / naming.CLAIM


def _of_train(split: object) -> dict[str, object]:
    return {**CLAIM, "splits": {"train": split}}


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        (".DS_Store", "empty", 4),
        ("train-00000-of-00001.tfrecord", "foreign", 5),
    ],
    ids=["a desktop's file", "a shard without a manifest"],
)
def test_what_is_no_build_is_recognised(name: str, state: str, code: int, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    status = build_status(str(tmp_path))
    assert (status.state, status.code) == (state, code)


def test_somebodys_files_are_named(tmp_path: Path) -> None:
    write(tmp_path, "holiday/1.jpg", b"x")
    write(tmp_path, ".DS_Store", b"x")

    status = build_status(str(tmp_path))
    assert status.code == 5
    assert status.to_text().splitlines() == [
        f"{tmp_path}: no dataset and no build of shardfeed's, but other files",
        "  files      holiday/1.jpg",
        "Next: give another --output, or remove these files yourself",
    ]


@pytest.mark.parametrize(
    "claim",
    [
        _of_train({"images": 3, "parts": 0}),
        _of_train({}),
        _of_train(7),
        _of_train({"images": "3", "parts": "1"}),
        _of_train({"images": [[]], "parts": 1}),
        _of_train({"images": True, "parts": 1}),
        _of_train({"images": 1, "parts": 10**400}),
        {**CLAIM, "splits": ["train"]},
        {**CLAIM, "fingerprint": "a\nb"},
        {**CLAIM, "fingerprint": 7},
        {**CLAIM, "config": []},
    ],
    ids=[
        *("no parts", "nothing of a split", "a number for a split", "text for numbers", "a list for a number"),
        *("true for a number", "more parts than can be", "a list of splits", "another fingerprint"),
        *("a number for a fingerprint", "a list for a config"),
    ],
)
def test_a_claim_that_is_none_of_ours_is_not_readable(
    claim: Mapping[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _claimed(tmp_path / "out", claim)

    assert main(["status", str(tmp_path / "out")]) == 5
    assert capsys.readouterr() == (
        "",
        f"shardfeed: {path} is not readable as a claim. Give another --output, or begin again with --discard_incomplete.\n",
    )


def test_a_claim_without_splits_is_an_older_shardfeeds(tmp_path: Path) -> None:
    _claimed(tmp_path / "out", CLAIM)

    status = build_status(str(tmp_path / "out"))
    assert (status.state, status.total) == ("encoding", None)


def test_options_of_a_claim_are_shown_without_control_characters(tmp_path: Path) -> None:
    _claimed(tmp_path / "out", {**CLAIM, "config": {"a\nb": "c\nd"}})

    assert rf"  build      {FINGERPRINT}: a\nb c\nd" in build_status(str(tmp_path / "out")).to_text().splitlines()


@pytest.mark.parametrize("number", ["1" * 30, "٠٠٠٠٣"], ids=["of 30 digits", "of another script"])
def test_a_sidecar_that_no_part_can_have_is_no_finished_part(number: str, tmp_path: Path) -> None:
    store = under_way(tmp_path / "out", images=200, parts=20, finished=3)
    store.create(f"_parts/{FINGERPRINT}/train/{number}.json", b"{}")

    status = build_status(store.url)
    assert (status.parts, status.exact, status.work_files) == (3, True, 5)


def test_a_reason_that_is_none_is_not_told(tmp_path: Path) -> None:
    store = under_way(tmp_path / "out", images=200, parts=20, finished=3)
    store.create(naming.outcome_name("run"), b"[" * DEEP)

    assert build_status(store.url).last_failure == ""


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "DIR is an empty string. Name a build's output: a folder (. for the current one) or gs://bucket/folder."),
        ("/dev/null", "/dev/null is not a folder. Name the folder that a build writes to."),
        ("notes.txt", "{here}/notes.txt is a file. Name the folder that a build writes to."),
        (
            "notes.txt/out",
            "cannot use {here}/notes.txt/out (Not a directory). Something that is not a folder stands in the way: remove it or "
            "choose another --output.",
        ),
    ],
    ids=["an empty name", "a device", "a file", "below a file"],
)
def test_what_can_be_no_place_for_a_build_is_refused(
    place: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("…")

    with pytest.raises(UsageError) as refused:
        build_status(place)
    assert str(refused.value) == message.format(here=tmp_path)


def test_a_folder_that_is_not_there_is_not_made_by_a_look(tmp_path: Path) -> None:
    before = disk.snapshot(tmp_path)

    status = build_status(str(tmp_path / "a" / "b"))
    assert (status.state, status.code) == ("empty", 4)
    assert disk.snapshot(tmp_path) == before


def test_links_that_lead_nowhere_are_somebodys_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("…")
    (tmp_path / "out").mkdir()
    for name, target in (("loop", "loop"), ("gone", "nowhere"), ("below", "../file/x")):
        (tmp_path / "out" / name).symlink_to(target)

    status = build_status(str(tmp_path / "out"))
    assert (status.state, status.foreign) == ("foreign", ["below", "gone", "loop"])
    sizes = {name: stat.size for name, stat in stores.open_output(str(tmp_path / "out")).list()}
    assert sizes == {"loop": 4, "gone": 7, "below": 9}


@pytest.mark.parametrize("write", [os.mkfifo, lambda path: path.write_text("{")], ids=["a pipe", "cut JSON"])
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (naming.MANIFEST, 4, "manifest.json is damaged: not JSON"),
        (naming.CLAIM, 5, "_parts/CLAIM is not readable as a claim."),
    ],
    ids=["manifest", "claim"],
)
def test_what_cannot_be_read_in_a_files_place_is_an_error_and_not_waited_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Path], object],
    name: str,
    code: int,
    said: str,
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    write(tmp_path / name)
    assert main(["status", str(tmp_path)]) == code
    assert said in capsys.readouterr().err
