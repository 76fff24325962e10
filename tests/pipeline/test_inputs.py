"""Lists and archives as inputs of a whole build, and a build that takes records of an earlier one."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.transforms.encode import previous_records, slices
from shardfeed.transforms.encode.previous_records import require_reusable
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning import plan
from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, photo, write
from tests.kit.metadata import write_table

FLAGS = ("--num_shards", "2", "--splits", "train=0.5,test=0.5")


def no_sample() -> None:
    """Of fewer than 1,000 images, all are sampled for mean and std, and so made anew."""
    hooks.put(slices, "STATS_IMAGES", 0)


def shards(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if ".tfrecord" in path.name}


def names(photos: Path) -> list[str]:
    return sorted(str(path.relative_to(photos)) for path in photos.rglob("*") if path.is_file())


def test_a_zip_a_tar_and_a_list_give_the_shards_of_the_folder(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    write(photos, "cat/note.txt", b"no image")
    write(photos, "dog/broken.jpg", b"\xff\xd8\xff broken")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in names(photos):
            zipped.write(photos / name, name)
    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        tar.add(photos, ".")
    (tmp_path / "list.txt").write_text("\n".join(reversed(names(photos))))
    of_list = ("--list_root", str(photos))
    inputs: dict[str, tuple[Path, tuple[str, ...]]] = {
        "folder": (photos, ()),
        "zip": (tmp_path / "photos.zip", ()),
        "tar": (tmp_path / "photos.tar", ()),
        "list": (Path(f"@{tmp_path / 'list.txt'}"), of_list),
        "zip, Beam": (tmp_path / "photos.zip", builds.DIRECT),
        "list, Beam": (Path(f"@{tmp_path / 'list.txt'}"), (*of_list, *builds.DIRECT)),
    }
    for kind, (given, flags) in inputs.items():
        builds.built(given, tmp_path / kind, *FLAGS, *flags)

    expected = shards(tmp_path / "folder")
    assert len(expected) == 8
    for kind in inputs:
        assert shards(tmp_path / kind) == expected
        manifest = disk.manifest(tmp_path / kind)
        assert manifest["skipped"]["by_reason"] == {"suffix": 1}
        assert manifest["rejected"]["total"] == 1
    for kind in ("list", "list, Beam"):
        assert (tmp_path / kind / "manifest.json").read_bytes() == (tmp_path / "folder/manifest.json").read_bytes()


def test_a_list_in_another_order_and_form_is_already_built_and_one_row_less_is_another_input(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    rows = names(photos)
    (photos / "list.txt").write_text("\n".join(rows))
    (photos / "list.csv").write_text("\n".join(["label,file", *(f"x,{row}" for row in reversed(rows))]))
    (photos / "less.txt").write_text("\n".join(rows[1:]))

    first = builds.built(Path(f"@{photos}/list.txt"), out, *FLAGS)
    again = builds.built(Path(f"@{photos}/list.csv:file"), out, *FLAGS)
    less = builds.build(Path(f"@{photos}/less.txt"), out, *FLAGS)

    assert not first.out.startswith("Already built")
    assert again.out.startswith("Already built")
    assert less.code == 5
    assert "was built from another state of the input" in less.err


def test_records_of_an_earlier_build_are_taken_and_only_repaired_images_are_made(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    good, changed = photo(0), "dog/changed.jpg"  # the repaired image is a second cat/000.jpg, with another label
    write(photos, "dog/broken.jpg", good[:200])
    write(photos, changed, photo(98).ljust(9_000, b"\0"))
    flags = (*FLAGS, "--max_rejected", "5", "--label_column", "kind", "--columns", "age,tags:string[]=")
    builds.built(photos, tmp_path / "old", *flags, *table(tmp_path, photos), hooks=[no_sample])
    before = disk.manifest(tmp_path / "old")
    assert (before["rejected"]["total"], before["duplicates"]["pairs"]) == (1, 0)

    write(photos, "dog/broken.jpg", good)
    write(photos, "bird/new.jpg", photo(100))  # a class before the others: their numbers change
    write(photos, changed, photo(101).ljust(9_000, b"\0"))
    os.utime(photos / changed, (5, 5))
    now = (*flags, *table(tmp_path, photos, ages=7))  # cells of all images change
    builds.built(photos, tmp_path / "anew", *now, hooks=[no_sample])
    for name, driver in builds.DRIVERS.items():
        log, out = tmp_path / f"images of {name}", tmp_path / name
        counting: list[Callable[[], None]] = [no_sample, partial(hooks.count_images, log)]
        ended = builds.built(photos, out, *now, *driver, "--retry_rejects", str(tmp_path / "old"), hooks=counting)

        assert len(log.read_bytes()) == 3
        assert f" {len(names(photos)) - 3} images kept from an earlier run\n" in ended.out
        assert disk.digests(out) == disk.digests(tmp_path / "anew")
    found = disk.manifest(tmp_path / "anew")
    assert (found["rejected"]["total"], found["duplicates"]["labels"], found["classes"][0]) == (0, 1, "bird")


def table(tmp_path: Path, photos: Path, *, ages: int = 0) -> tuple[str, str]:
    """A table with the folder of each image as its kind."""
    rows = [
        {"file_name": name, "kind": os.path.dirname(name), "age": ages + number, "tags": ["x"][number % 2 :]}
        for number, name in enumerate(names(photos))
    ]
    return "--metadata", str(write_table(tmp_path / "t.jsonl", rows))


def test_images_that_are_sampled_for_mean_and_std_are_made_anew(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    builds.built(photos, tmp_path / "old", *FLAGS)
    builds.built(photos, tmp_path / "new", *FLAGS, "--retry_rejects", str(tmp_path / "old"))
    assert disk.manifest(tmp_path / "new")["image"] == disk.manifest(tmp_path / "old")["image"]


def test_a_build_that_ended_with_too_many_rejects_is_taken_up_where_its_source_was_repaired(tmp_path: Path) -> None:
    photos, log = make_photos(tmp_path / "photos"), tmp_path / "images"
    write(photos, "cat/broken.jpg", photo(99)[:200])
    flags = (*FLAGS, "--max_rejected", "0")
    assert builds.build(photos, tmp_path / "old", *flags, hooks=[no_sample]).code == 3
    before = disk.snapshot(tmp_path / "old")

    write(photos, "cat/broken.jpg", photo(99))
    taken = ("--retry_rejects", str(tmp_path / "old"))
    builds.built(photos, tmp_path / "new", *flags, *taken, hooks=[no_sample, partial(hooks.count_images, log)])
    builds.built(photos, tmp_path / "anew", *flags, hooks=[no_sample])
    other = builds.build(photos, tmp_path / "other", *flags, *taken, "--quality", "50")

    assert len(log.read_bytes()) == 1
    assert shards(tmp_path / "new") == shards(tmp_path / "anew")
    assert disk.snapshot(tmp_path / "old") == before
    assert (other.code, "holds an unfinished build that differs in --quality" in other.err) == (2, True), other.err


def test_other_codecs_and_another_encoder_of_ours_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = make_photos(tmp_path / "photos")
    builds.built(photos, tmp_path / "done")
    write(photos, "cat/broken.jpg", b"no image")
    builds.build(photos, tmp_path / "stopped", "--max_rejected", "0")
    options = BuildOptions(image=ImageOptions(height=16, width=16))
    for name in ("done", "stopped"):
        require_reusable(str(tmp_path / name), options)
        with monkeypatch.context() as patch:
            patch.setattr(previous_records, "codec_versions", lambda image: {"pillow": "1"})
            with pytest.raises(UsageError, match="differs in codec versions"):
                require_reusable(str(tmp_path / name), options)
        with monkeypatch.context() as patch:
            patch.setattr(plan, "ENCODER_REVISION", 2)
            patch.setattr(previous_records, "ENCODER_REVISION", 2)
            with pytest.raises(UsageError, match="differs in the release of shardfeed"):
                require_reusable(str(tmp_path / name), options)


@pytest.mark.parametrize("kind", ["tfrecord", "parquet"])
def test_damaged_records_are_made_anew_and_those_of_a_damaged_table(tmp_path: Path, kind: str) -> None:
    photos = make_photos(tmp_path / "photos")
    builds.built(photos, tmp_path / "old", *FLAGS, hooks=[no_sample])
    whole = shards(tmp_path / "old")
    for path in (tmp_path / "old").glob(f"*.{kind}"):
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
    taken = ("--retry_rejects", str(tmp_path / "old"))
    ended = builds.built(photos, tmp_path / "new", *FLAGS, *taken, hooks=[no_sample])
    assert ("its images are made again" in ended.err) == (kind == "parquet")
    assert shards(tmp_path / "new") == whole


def test_what_cannot_be_taken_over_is_refused_with_the_flag(tmp_path: Path) -> None:
    photos, old = make_photos(tmp_path / "photos"), tmp_path / "old"
    builds.built(photos, old, *FLAGS)
    cases: dict[str, tuple[Path | str, ...]] = {
        "differs in --image_size (there 16x16, here 8x8). Give the flags of that build": (old, "--image_size", "8"),
        "--retry_rejects: no dataset at": (tmp_path / "none",),
        "is --output too": (tmp_path / "new",),
    }
    for said, (where, *flags) in cases.items():
        ended = builds.build(photos, tmp_path / "new", *FLAGS, *map(str, flags), "--retry_rejects", str(where))
        assert (ended.code, ended.out) == (2, ""), ended.err
        assert said in ended.err
    assert not (tmp_path / "new").exists()
