"""P7: labels are never guessed.

What is unclear ends the run before any work, with a remedy. A class list can be locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, photo, write
from tests.kit.metadata import write_table


def refused(photos: Path, tmp_path: Path, *flags: str) -> str:
    """What a build says that ends with exit 2, has decoded nothing and leaves nothing behind."""
    log, out = tmp_path / "images", tmp_path / "out"
    ended = builds.build(photos, out, *flags, hooks=[partial(hooks.count_images, log)])
    assert (ended.code, ended.out, log.read_bytes() if log.exists() else b"") == (2, "", b""), ended.err
    assert disk.files(out) == []
    return ended.err


def class_list(tmp_path: Path, *names: str) -> str:
    path = tmp_path / "classes"
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Unclear:
    """Files of an input, and what is said of them.

    ``listed``: the classes of ``--class_list``.
    """

    files: Sequence[str | bytes]
    said: Sequence[str]
    flags: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()


UNCLEAR = {
    "images in the root, by Beam": Unclear(
        ["cat/1.jpg", "loose-0.jpg", "loose-1.jpg"],
        ["2 images lie directly in the input root", "loose-0.jpg, loose-1.jpg", "ROOT/cat/1.jpg"],
        flags=builds.DIRECT,
    ),
    "a folder that is not UTF-8": Unclear(
        ["cat/1.jpg", b"caf\xe9/1.jpg"], [r"class folder whose name is not UTF-8: caf\xe9/1.jpg"]
    ),
    "images outside of split folders": Unclear(
        ["train/cat/1.jpg", "test/cat/1.jpg", "extra/cat/1.jpg", "train/loose.jpg"],
        ["2 images lie elsewhere: extra/cat/1.jpg, train/loose.jpg"],
        flags=("--splits", "folders"),
    ),
    "a folder that is not listed": Unclear(
        ["ant/1.jpg", "bee/1.jpg"],
        ["folders that are not in --class_list: bee. Allowed: ant, cat"],
        listed=("ant", "cat"),
    ),
}


@pytest.mark.parametrize("case", UNCLEAR.values(), ids=list(UNCLEAR))
def test_what_is_unclear_is_refused_with_a_remedy(case: Unclear, tmp_path: Path) -> None:
    for key in case.files:
        write(tmp_path / "photos", key, photo(1))
    listed = ("--class_list", class_list(tmp_path, *case.listed)) if case.listed else ()
    said = refused(tmp_path / "photos", tmp_path, *case.flags, *listed)
    assert [text for text in case.said if text not in said] == []


def test_top_folders_that_look_like_splits_are_refused_with_the_flag_that_takes_them(tmp_path: Path) -> None:
    tops = ("train", "val", "validation", "valid")  # the last three are one split
    photos = make_photos(
        tmp_path / "photos", classes=[f"{top}/{label}" for top in tops for label in ("cat", "dog")], each=2
    )
    said = refused(photos, tmp_path)
    assert "look like splits, not classes" in said
    assert "--splits folders" in said
    builds.built(photos, tmp_path / "out", "--splits", "folders")
    manifest = disk.manifest(tmp_path / "out")
    assert {name: split["records"] for name, split in manifest["splits"].items()} == {"train": 4, "validation": 12}
    assert manifest["classes"] == ["cat", "dog"]


def test_a_class_list_fixes_the_numbers_of_the_classes(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["ant", "bee", "cat"], each=2)
    builds.built(photos, tmp_path / "out", "--class_list", class_list(tmp_path, "cat", "ant", "bee"))
    assert disk.manifest(tmp_path / "out")["classes"] == ["cat", "ant", "bee"]
    found = {(features["label"], features["class"]) for _, features in disk.records(tmp_path / "out")}
    assert found == {(b"cat", 0), (b"ant", 1), (b"bee", 2)}


@pytest.mark.parametrize(
    ("labels", "listed", "said"),
    [
        (["red", ["Red", "big"]], [], "labels 'Red' and 'red' look alike"),
        (["red", ["red", None]], [], "row 2: column labels is empty, and it is the label"),
        (["red", ["red", "big"]], ["red"], "labels that are not in --class_list: big. Allowed: red."),
        (["red", []], ["red", "big"], "classes of --class_list without a single image: big"),
        ([[], []], [], "not one of 2 images has a label. Check the labels, or give --label_from none."),
    ],
    ids=["look-alikes", "no text", "not listed", "only listed", "none at all"],
)
def test_several_labels_per_image_are_not_guessed_either(
    labels: list[str | list[str]], listed: list[str], said: str, tmp_path: Path
) -> None:
    rows = [{"file_name": f"{n}.jpg", "labels": [one] if one == "red" else one} for n, one in enumerate(labels)]
    for row in rows:
        write(tmp_path / "photos", str(row["file_name"]), photo(1))
    flags = ["--metadata", str(write_table(tmp_path / "t.jsonl", rows)), "--label_column", "labels"]
    flags += ["--class_list", class_list(tmp_path, *listed)] if listed else []
    assert said in refused(tmp_path / "photos", tmp_path, *flags)
