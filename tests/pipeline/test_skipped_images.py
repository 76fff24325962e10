"""Images whose names end in something else are skipped, and the user hears of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.kit import builds, disk
from tests.kit.images import make_photos, photo, write

NOTE = (
    "  note       of 3 skipped files that were looked at, one per suffix, 2 hold an image: cat/p.jpg?w=200, dog/photo.jpg.1. "
    "Rename such files, so that they end in .jpg, .png or the like, and build into another output"
)


def _photos(root: Path) -> Path:
    photos = make_photos(root)
    write(photos, "cat/p.jpg?w=200", photo(90))
    write(photos, "dog/photo.jpg.1", photo(91))
    write(photos, "notes.txt", b"hello")
    return photos


def test_both_drivers_and_plan_say_it_and_write_the_same_manifest(tmp_path: Path) -> None:
    photos = _photos(tmp_path / "photos")
    outs = [tmp_path / driver for driver in builds.DRIVERS]
    for out, flags in zip(outs, builds.DRIVERS.values(), strict=True):
        assert NOTE in builds.built(photos, out, *flags).out
    assert len({disk.digests(out)["manifest.json"] for out in outs}) == 1
    assert NOTE in builds.run("plan", *builds.build_args(photos, tmp_path / "out")[1:]).out


def test_members_of_a_zip_are_looked_at_too(tmp_path: Path) -> None:
    photos = _photos(tmp_path / "photos")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(photos.rglob("*.*")):
            archive.write(path, path.relative_to(photos))
    assert NOTE in builds.built(tmp_path / "photos.zip", tmp_path / "out").out


def test_an_input_of_nothing_else_names_some(tmp_path: Path) -> None:
    write(tmp_path / "photos", "cat/p.jpg?w=200", photo(1))
    ended = builds.build(tmp_path / "photos", tmp_path / "out")
    assert ended.code == 2
    assert "no images found in the input (skipped: 1 suffix, such as cat/p.jpg?w=200)" in ended.err
