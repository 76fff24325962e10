"""P1: nothing is lost. Every listed file is written, rejected or skipped, once.

A build that cannot prove it stops.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, photo, write

_WHOLE = {name: photo(1, image_format=name) for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP")}
_USELESS = {
    "EMPTY": b"",
    "FORMAT": b"<html>404 Not Found</html>",
    "TRUNCATED": _WHOLE["JPEG"][: len(_WHOLE["JPEG"]) // 2],
    "ASPECT": photo(2, size=(404, 4), image_format="PNG"),
}
_NAMES = (
    b"plain", b"with space", b"UPPER", "käse 猫 🐈".encode(), b"quote\"'", b"back\\slash", b"per%20cent", b"tab\tline\nbreak",
    b"deep/er/folder/x", b"dots..in.the.middle", b"-dash", b"star*[a]?", b"x" * 180, b"$HOME ${x} {y}", b"#hash;semi", b"~",
)  # fmt: skip
_SUFFIXES = {
    "JPEG": (b".jpg", b".JPEG", b""),
    "PNG": (b".png",),
    "WEBP": (b".webp",),
    "GIF": (b".gif",),
    "BMP": (b".BMP",),
}
_SKIPPED = {
    "suffix": (b"notes.txt", b"boxes.xml", b"movie.mp4", b"archive.tar.gz"),
    "hidden": (b".DS_Store", b".hidden.jpg", b".thumbs/1.jpg", b"sub/.git/2.jpg"),
    "document": (b"README", b"LICENSE", b"Makefile"),
}


@dataclass
class Tree:
    """What was put there, and what has to become of it."""

    written: list[bytes] = field(default_factory=list)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def tree_of_every_kind(root: Path) -> Tree:
    """Classes of odd names, each with every kind of file there is under every odd name."""
    tree = Tree()
    for label in (b"cat", "Vögel".encode(), b"a b", b"0", b"x.y"):
        for image_format, suffixes in _SUFFIXES.items():
            for name, suffix in itertools.product(_NAMES, suffixes):
                if suffix or b"." not in name:  # else the name would have another suffix
                    tree.written.append(write(root, label + b"/" + name + suffix, _WHOLE[image_format]))
        for reason, data in _USELESS.items():
            tree.rejected.append((write(root, label + b"/%s.jpg" % reason.encode(), data).decode(), reason))
        unnamed = write(root, label + b"/\xff\xfe.jpg", _WHOLE["JPEG"])
        tree.rejected.append((unnamed.decode("utf-8", "backslashreplace"), "NAME"))
        for reason, names in _SKIPPED.items():
            for name in names:
                write(root, label + b"/" + name, _WHOLE["JPEG"])
                tree.skipped[reason] += 1
        _add_odd_entries(root, label, tree)
    return tree


def _add_odd_entries(root: Path, label: bytes, tree: Tree) -> None:
    """Links and a pipe."""
    folder = os.path.join(os.fsencode(root), label)
    os.symlink(os.path.join(folder, b"plain.jpg"), os.path.join(folder, b"link.jpg"))
    tree.written.append(label + b"/link.jpg")
    for number, target in enumerate((b"absent.jpg", b"/etc/hostname")):
        os.symlink(target, os.path.join(folder, b"link-%d.jpg" % number))
        tree.skipped["symlink"] += 1
    os.mkfifo(os.path.join(folder, b"pipe.jpg"))
    tree.skipped["special"] += 1


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_every_listed_file_is_written_rejected_or_skipped_once(driver: str, tmp_path: Path) -> None:
    tree, out = tree_of_every_kind(tmp_path / "photos"), tmp_path / "out"
    builds.built(tmp_path / "photos", out, "--max_rejected", "100%", *builds.DRIVERS[driver])
    assert disk.keys(out) == sorted(tree.written)
    assert sorted((line["key"], line["reason"]) for line in disk.rejects(out)) == sorted(tree.rejected)
    manifest = disk.manifest(out)
    assert manifest["skipped"]["by_reason"] == tree.skipped
    assert manifest["rejected"]["by_reason"] == Counter(reason for _, reason in tree.rejected)
    assert manifest["written"] == len(tree.written)
    assert manifest["listed"] == len(tree.written) + len(tree.rejected) + tree.skipped.total()


def test_every_record_has_its_own_image_and_the_label_of_its_folder(tmp_path: Path) -> None:
    photos, out = tmp_path / "photos", tmp_path / "out"
    colours = {b"red/%d.png": (200, 0, 0), b"green/%d.png": (0, 200, 0), b"blue/deep/%d.png": (0, 0, 200)}
    for pattern, colour in colours.items():
        for number in range(4):
            path = photos / os.fsdecode(pattern % number)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), tuple(channel + number * 10 for channel in colour)).save(path)
    builds.built(photos, out, "--image_format", "raw", "--splits", "train=0.5,test=0.5", "--max_rejected", "0")
    seen, splits = {}, set()
    for split, features in disk.records(out):
        splits.add(split)
        seen[features["key"]] = tuple(features["image"][:3])
        assert features["image"] == features["image"][:3] * 256
        assert features["key"].startswith(features["label"] + b"/")
        assert features["label"] == [b"blue", b"green", b"red"][features["class"]]
    assert (disk.keys(out), splits) == (sorted(seen), {"train", "test"})
    assert seen == {
        pattern % number: tuple(channel + number * 10 for channel in colour)
        for pattern, colour in colours.items()
        for number in range(4)
    }


def _change(photos: Path) -> None:
    (photos / "cat" / "003.jpg").write_bytes(photo(99, size=(40, 40)))
    (photos / "dog" / "001.jpg").unlink()


def test_images_that_change_between_listing_and_reading_are_rejected_not_lost(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    builds.built(photos, out, hooks=[partial(hooks.before_encoding, partial(_change, photos))])
    assert {line["key"]: line["reason"] for line in disk.rejects(out)} == {
        "cat/003.jpg": "CHANGED",
        "dog/001.jpg": "CHANGED",
    }
    assert len(disk.keys(out)) == 10


_MUTATIONS: dict[str, Callable[[], None]] = {
    "an image is lost": partial(hooks.lose_and_double_images, b"cat/003.jpg", b""),
    "one is lost and another written twice": partial(hooks.lose_and_double_images, b"cat/003.jpg", b"dog/001.jpg"),
    "rejects are not written down": hooks.lose_rejects,
}


@pytest.mark.parametrize(
    ("driver", "mutation"),
    [*(("local", name) for name in _MUTATIONS), ("DirectRunner", "one is lost and another written twice")],
)
def test_a_build_that_loses_or_doubles_something_publishes_nothing(driver: str, mutation: str, tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    write(photos, "cat/empty.jpg", b"")
    ended = builds.build(photos, out, *builds.DRIVERS[driver], hooks=[_MUTATIONS[mutation]])
    assert ended.code == 4
    assert "train: 13 images were listed, but " in ended.err
    assert "Nothing was published" in ended.err
    assert [name for name in disk.files(out) if not name.startswith("_parts/")] == []
    with pytest.raises(DatasetError, match="build incomplete: rerun the same"):
        shardfeed.info(out)


def test_two_inputs_with_different_keys_are_one_dataset(tmp_path: Path) -> None:
    one, two = (make_photos(tmp_path / name, classes=[name]) for name in ("cat", "dog"))
    out = tmp_path / "out"
    builds.built([one, two], out)
    assert len(disk.keys(out)) == 12
    assert disk.manifest(out)["classes"] == ["cat", "dog"]
