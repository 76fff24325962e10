"""``shardfeed status`` of a place that holds no build and no dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.cli.main import main
from shardfeed.pipeline.status.command import status_of


def _nothing(_out: Path) -> None:
    pass


def _empty_folder(out: Path) -> None:
    out.mkdir()


def _others(out: Path) -> None:
    (out / "holiday").mkdir(parents=True)
    (out / "holiday" / "1.jpg").write_bytes(b"x")
    (out / ".DS_Store").write_bytes(b"x")


def _only_a_desktop_file(out: Path) -> None:
    out.mkdir()
    (out / ".DS_Store").write_bytes(b"x")


def _shards_without_manifest(out: Path) -> None:
    out.mkdir()
    (out / "train-00000-of-00001.tfrecord").write_bytes(b"x")


@pytest.mark.parametrize(
    ("made", "state", "code"),
    [
        (_nothing, "empty", 4),
        (_empty_folder, "empty", 4),
        (_only_a_desktop_file, "empty", 4),
        (_others, "foreign", 5),
        (_shards_without_manifest, "foreign", 5),
    ],
    ids=["no folder", "an empty folder", "a desktop's file", "somebody's photos", "shards without a manifest"],
)
def test_what_is_no_build_is_told_apart(made: Callable[[Path], None], state: str, code: int, tmp_path: Path) -> None:
    made(tmp_path / "out")

    status = status_of(str(tmp_path / "out"))
    assert (status.state, status.code) == (state, code)


def test_a_file_is_no_place_for_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("…")

    assert main(["status", str(file)]) == 2

    assert capsys.readouterr().err == f"shardfeed: {file} is a file. Name the folder that a build writes to.\n"


def test_an_empty_name_is_not_the_current_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", ""]) == 2

    said = capsys.readouterr().err
    assert said == (
        "shardfeed: DIR is an empty string. Name a build's output: a folder (. for the current one) or gs://bucket/folder.\n"
    )


def test_somebodys_files_are_named(tmp_path: Path) -> None:
    _others(tmp_path / "out")

    assert status_of(str(tmp_path / "out")).to_text().splitlines() == [
        f"{tmp_path}/out: no dataset and no build of shardfeed's, but other files",
        "  files      holiday/1.jpg",
        "Next: give another --output, or remove these files yourself",
    ]
