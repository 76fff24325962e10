"""P7: labels are never guessed.

What is unclear ends the run before any work, with a remedy. A class list can be locked.
"""

from __future__ import annotations

import os
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


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("cat", "Cat"), id="case"),
        pytest.param(("caf\u00e9", "cafe\u0301"), id="NFC and NFD"),
        pytest.param(("big\u00a0cat", "big cat"), id="no-break space"),
    ],
)
def test_class_folders_that_look_alike_are_refused_naming_both(names: tuple[str, str], tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=[*names, "dog"], each=2)
    said = refused(photos, tmp_path)
    assert all(ascii(name) in said for name in names)
    assert "Rename one" in said


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_images_in_the_root_are_refused_with_their_number_and_names(driver: str, tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    for number in range(7):
        write(photos, f"loose-{number}.jpg", photo(1))
    said = refused(photos, tmp_path, *builds.DRIVERS[driver])
    assert "7 images lie directly in the input root" in said
    assert "loose-0.jpg, loose-1.jpg" in said
    assert "ROOT/cat/1.jpg" in said


def test_documents_in_the_root_are_no_images(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    for name in ("README.md", "LICENSE", ".DS_Store", "labels.csv"):
        write(photos, name, b"text")
    builds.built(photos, out)
    assert disk.manifest(out)["classes"] == ["cat", "dog"]


@pytest.mark.parametrize(
    "tops", [("train", "test"), ("train", "val"), ("train", "validation", "test"), ("train",)], ids=" ".join
)
def test_top_folders_that_look_like_splits_are_refused_with_the_flag_that_takes_them(
    tops: tuple[str, ...], tmp_path: Path
) -> None:
    photos = make_photos(
        tmp_path / "photos", classes=[f"{top}/{label}" for top in tops for label in ("cat", "dog")], each=2
    )
    said = refused(photos, tmp_path)
    assert "look like splits, not classes" in said
    assert "--splits folders" in said
    builds.built(photos, tmp_path / "out", "--splits", "folders")
    expected = {{"val": "validation"}.get(top, top): 4 for top in tops}
    assert {name: split["records"] for name, split in disk.manifest(tmp_path / "out")["splits"].items()} == expected
    assert disk.manifest(tmp_path / "out")["classes"] == ["cat", "dog"]


def test_images_outside_of_split_folders_are_refused_with_splits_folders(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["train/cat", "test/cat", "extra/cat"], each=2)
    write(photos, "train/loose.jpg", photo(1))
    said = refused(photos, tmp_path, "--splits", "folders")
    assert "3 images lie elsewhere: extra/cat/000.jpg, extra/cat/001.jpg, train/loose.jpg" in said


def test_val_and_validation_are_one_split(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["train/cat", "val/cat", "validation/cat", "valid/cat"], each=2)
    builds.built(photos, tmp_path / "out", "--splits", "folders")
    splits = disk.manifest(tmp_path / "out")["splits"]
    assert {name: split["records"] for name, split in splits.items()} == {"train": 2, "validation": 6}


def test_a_class_folder_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    write(photos, b"caf\xe9/1.jpg", photo(1))
    assert r"class folder whose name is not UTF-8: caf\xe9/1.jpg" in refused(photos, tmp_path)


def test_without_a_list_the_classes_are_the_folders_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["zebra", "Ant", "ähre", "10", "9", "a b"], each=1)
    builds.built(photos, tmp_path / "out")
    classes = disk.manifest(tmp_path / "out")["classes"]
    assert classes == sorted(["zebra", "Ant", "ähre", "10", "9", "a b"], key=os.fsencode)
    assert (tmp_path / "out" / "classes.txt").read_text().splitlines() == classes
    for _, features in disk.records(tmp_path / "out"):
        assert features["label"].decode() == classes[features["class"]] == features["key"].decode().split("/")[0]


def class_list(tmp_path: Path, *names: str) -> str:
    path = tmp_path / "classes"
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_a_class_list_fixes_the_numbers_of_the_classes(driver: str, tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["ant", "bee", "cat"], each=2)
    flags = ("--class_list", class_list(tmp_path, "cat", "ant", "bee"), *builds.DRIVERS[driver])
    builds.built(photos, tmp_path / "out", *flags)
    assert disk.manifest(tmp_path / "out")["classes"] == ["cat", "ant", "bee"]
    found = {(features["label"], features["class"]) for _, features in disk.records(tmp_path / "out")}
    assert found == {(b"cat", 0), (b"ant", 1), (b"bee", 2)}


def test_a_folder_that_is_not_in_the_class_list_is_refused(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["ant", "bee", "cat"], each=2)
    said = refused(photos, tmp_path, "--class_list", class_list(tmp_path, "ant", "cat"))
    assert "folders that are not in --class_list: bee. Allowed: ant, cat" in said


def test_a_listed_class_without_images_is_refused(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["ant"], each=2)
    assert "without a single image: bee" in refused(
        photos, tmp_path, "--class_list", class_list(tmp_path, "ant", "bee")
    )


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


def test_the_image_decides_no_label_a_renamed_folder_does(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=["cat", "dog"], each=3)
    (photos / "cat").rename(photos / "lion")
    builds.built(photos, tmp_path / "out")
    assert disk.manifest(tmp_path / "out")["splits"]["train"]["class_counts"] == {"dog": 3, "lion": 3}
