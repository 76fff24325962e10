"""P6: bad images neither stop a build nor hide in it.

More of them than allowed fail it, and nothing is published.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, photo, write
from tests.kit.metadata import write_table

_EMPTY, _FORMAT = "EMPTY", "FORMAT"


def bad_photos(root: Path, *, good: int, empty: int, text: int = 0) -> Path:
    """One class of good and bad images, and one of good ones."""
    make_photos(root, each=good // 2)
    for number in range(empty):
        write(root, f"cat/empty-{number:03d}.jpg", b"")
    for number in range(text):
        write(root, f"cat/text-{number:03d}.jpg", b"no image at all")
    return root


def rejects_named(err: str) -> list[Path]:
    """Rejects files that an error names."""
    return [Path(line.strip()) for line in err.splitlines() if line.strip().endswith(".jsonl")]


def test_bad_images_within_the_limit_are_in_the_rejects_file_with_a_reason_and_a_detail(tmp_path: Path) -> None:
    photos, out = bad_photos(tmp_path / "photos", good=20, empty=3, text=2), tmp_path / "out"
    builds.built(photos, out)
    lines = {line.pop("key"): line for line in disk.rejects(out)}
    detail = lines["cat/text-000.jpg"]["detail"]
    assert lines == {
        **{f"cat/empty-{n:03d}.jpg": {"reason": _EMPTY, "detail": "zero bytes"} for n in range(3)},
        **{f"cat/text-{n:03d}.jpg": {"reason": _FORMAT, "detail": detail} for n in range(2)},
    }
    assert "JPEG" in detail
    assert disk.manifest(out)["rejected"] == {"by_reason": {_EMPTY: 3, _FORMAT: 2}, "total": 5}
    assert len(disk.keys(out)) == 20


@pytest.mark.parametrize(("bad", "code"), [(10, 0), (11, 3)], ids=["share reached", "share exceeded"])
def test_a_limit_is_a_share_of_the_candidates_and_not_of_all_files(bad: int, code: int, tmp_path: Path) -> None:
    photos, out = bad_photos(tmp_path / "photos", good=30, empty=bad), tmp_path / "out"
    for number in range(50):
        write(photos, f"cat/skipped-{number}.txt", b"")  # they must not make room for more rejects
    ended = builds.build(photos, out, "--max_rejected", "25%")
    assert (ended.code, (out / "manifest.json").exists()) == (code, code == 0), ended.err


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_too_many_publish_nothing_and_a_rerun_decodes_nothing_and_publishes_the_same_lines_with_a_higher_limit(
    driver: str, tmp_path: Path
) -> None:
    photos, out, log = bad_photos(tmp_path / "photos", good=20, empty=8, text=5), tmp_path / "out", tmp_path / "images"
    first = builds.build(photos, out, *builds.DRIVERS[driver])
    assert (first.code, first.out) == (3, "")
    assert "13 of 33 images cannot be used (EMPTY 8, FORMAT 5); --max_rejected allows 10" in first.err
    assert "--max_rejected 13" in first.err
    assert [name for name in disk.files(out) if not name.startswith("_parts/")] == []
    (named,) = rejects_named(first.err)
    lines = named.read_bytes()
    assert len(lines.splitlines()) == 13

    count = partial(hooks.count_images, log)
    again = builds.build(photos, out, *builds.DRIVERS[driver], hooks=[count])
    assert (again.code, again.err) == (3, first.err)
    higher = builds.built(photos, out, "--max_rejected", "13", "--json", *builds.DRIVERS[driver], hooks=[count])
    assert log.read_bytes() == b""
    assert json.loads(higher.out)["encoded_in_this_run"] == 0
    assert (out / "rejects-00000-of-00001.jsonl").read_bytes() == lines
    builds.built(photos, tmp_path / "at-once", "--max_rejected", "13")
    assert disk.digests(out) == disk.digests(tmp_path / "at-once")


def test_of_several_labels_each_needs_a_record_and_without_labels_each_split_does(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    labels: tuple[list[str], ...] = (["common"], ["rare", "common"], [], ["rare"])
    rows = [
        {"file_name": f"{number}.jpg", "labels": names, "fold": f"{number % 2}"} for number, names in enumerate(labels)
    ]
    for row, data in zip(rows, (photo(1), b"", photo(2), b""), strict=True):
        write(photos, str(row["file_name"]), data)
    table = ("--metadata", str(write_table(tmp_path / "t.jsonl", rows)), "--max_rejected", "100%")

    several = builds.build(photos, tmp_path / "several", *table, "--label_column", "labels")
    none = builds.build(photos, tmp_path / "none", *table, "--label_from", "none", "--splits", "column:fold")

    assert [ended.code for ended in (several, none)] == [3, 3]
    assert "no image of 1 class can be used: rare. Rejected: EMPTY 2." in several.err
    assert "no image of split fold_1 can be used (EMPTY 2)" in none.err
    assert [len(disk.rejects(rejects_named(ended.err)[0].parent)) for ended in (several, none)] == [2, 2]
    write(photos, "3.jpg", photo(3))
    builds.built(photos, tmp_path / "repaired", *table, "--label_column", "labels")
    assert disk.manifest(tmp_path / "repaired")["splits"]["train"]["class_counts"] == {"common": 1, "rare": 1}


def test_rejects_come_in_files_of_a_fixed_number_of_lines_in_one_order(tmp_path: Path) -> None:
    photos = bad_photos(tmp_path / "photos", good=20, empty=25)
    for name, changed in (("cut", [partial(hooks.rejects_a_file, 10)]), ("whole", [])):
        builds.built(photos, tmp_path / name, "--max_rejected", "25", hooks=changed)
    cut = [f"rejects-{number:05d}-of-00003.jsonl" for number in range(3)]
    assert [len((tmp_path / "cut" / name).read_text().splitlines()) for name in cut] == [10, 10, 5]
    assert disk.rejects(tmp_path / "cut") == disk.rejects(tmp_path / "whole")
    assert [file["file"] for file in disk.manifest(tmp_path / "cut")["files"] if "rejects" in file["file"]] == cut
