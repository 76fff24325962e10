"""What a build says at its end, whole, from a manifest made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shardfeed.format.manifest import ImageInfo, Manifest, Shard, Split
from shardfeed.pipeline.report.summary import Summary

MANIFEST = Manifest(
    fingerprint="f" * 32,
    config={"num_shards": 2},
    versions={},
    classes=("cat", "dög\n", "owl"),
    listing={},
    listed=12_345,
    written=12_000,
    rejected={"EMPTY": 5, "CORRUPT": 40},
    skipped={"suffix": 299, "hidden": 1},
    fixes={"upscaled": 7, "exif_orientation": 1_200},
    image=ImageInfo(224, 224, 3, "jpeg", (1.0,) * 3, (1.0,) * 3),
    splits={
        "train": Split(
            10_000,
            210_000_000,
            {"cat": 9_000, "dög\n": 999, "owl": 1},
            (
                Shard("train-00000-of-00002.tfrecord", 5_000, 104_000_000, "0" * 8, ()),
                Shard("train-00001-of-00002.tfrecord", 5_000, 106_000_000, "0" * 8, ()),
            ),
        ),
        "validation": Split(
            2_000,
            42_000,
            {"cat": 2_000, "dög\n": 0, "owl": 0},
            (Shard("validation-00000-of-00001.tfrecord", 2_000, 42_000, "0" * 8, ()),),
        ),
    },
    files=(),
)
BUILT = Summary(MANIFEST, "/data/out", 20.04, already_built=False)
TEXT = """\
Built: /data/out
  images     12,345 listed = 12,000 written + 45 rejected (CORRUPT 40, EMPTY 5) + 300 skipped (suffix 299, hidden 1)
  fixes      exif_orientation 1,200, upscaled 7
  train      10,000 records in 2 shards, 210.0 MB (min 104.0 MB, mean 105.0 MB, max 106.0 MB)
  validation 2,000 records in 1 shard, 42.0 kB
  classes    3: cat 11,000, dög\\n 999, owl 1
  time       20.0 s, 601 img/s
Next: shardfeed verify /data/out --deep"""


def test_a_build_ends_with_a_screen_of_facts() -> None:
    assert BUILT.to_text() == TEXT


def test_a_resumed_build_says_what_it_kept_and_counts_only_its_own_work() -> None:
    lines = replace(BUILT, kept=2_045, seconds=200.0, notes=("train: 2 shards instead of 3",)).to_text().splitlines()
    assert lines[-3:] == [
        "  time       3 min 20 s, 50 img/s, 2,045 images kept from an earlier run",
        "  note       train: 2 shards instead of 3",
        "Next: shardfeed verify /data/out --deep",
    ]


def test_where_nobody_knows_what_was_kept_nothing_is_said_of_a_rate() -> None:
    unknown = replace(BUILT, kept=None)

    assert unknown.to_text().splitlines()[-2] == "  time       20.0 s"
    assert json.loads(unknown.to_json())["encoded_in_this_run"] is None


def test_a_build_that_was_there_says_so_and_takes_no_credit() -> None:
    there = replace(BUILT, already_built=True)
    lines, raw = there.to_text().splitlines(), json.loads(there.to_json())

    assert lines == ["Already built: /data/out", *TEXT.splitlines()[1:-2], "Next: shardfeed verify /data/out --deep"]
    assert (raw["status"], raw["encoded_in_this_run"]) == ("already_built", 0)


def test_what_did_not_happen_is_short() -> None:
    manifest = replace(MANIFEST, rejected={}, skipped={}, fixes={})

    assert replace(BUILT, manifest=manifest).to_text().splitlines()[1:3] == [
        "  images     12,345 listed = 12,000 written + 0 rejected + 0 skipped",
        TEXT.splitlines()[3],
    ]


def test_a_thousand_classes_take_one_line() -> None:
    split = Split(1_000, 1, {f"c{i:04}": 1 for i in range(1_000)}, MANIFEST.splits["train"].shards)
    manifest = replace(MANIFEST, classes=tuple(split.class_counts), splits={"train": split})

    lines = replace(BUILT, manifest=manifest).to_text().splitlines()
    classes = ", ".join(f"c{i:04} 1" for i in range(12))
    assert [line for line in lines if "classes" in line] == [f"  classes    1,000: {classes} and 988 more"]


@pytest.mark.parametrize(
    ("output", "quoted"),
    [
        ("gs://b-1/x_y/v1.0", "gs://b-1/x_y/v1.0"),
        ("/my data/out", "'/my data/out'"),
        ("/it's/out", "'/it'\"'\"'s/out'"),
        ("/a\x1b[2J\nb", "'/a\\x1b[2J\\nb'"),
        ("/$HOME/out", "'/$HOME/out'"),
    ],
)
def test_the_next_command_can_be_pasted_and_no_line_has_control_characters(output: str, quoted: str) -> None:
    lines = replace(BUILT, output=output).to_text().split("\n")
    assert lines[-1] == f"Next: shardfeed verify {quoted} --deep"
    assert all(line.isprintable() for line in lines)


def test_json_holds_the_same_facts() -> None:
    assert json.loads(replace(BUILT, kept=45, notes=("note",)).to_json()) == {
        "status": "built",
        "output": "/data/out",
        "fingerprint": "f" * 32,
        "listed": 12_345,
        "written": 12_000,
        "rejected": {"EMPTY": 5, "CORRUPT": 40},
        "skipped": {"suffix": 299, "hidden": 1},
        "fixes": {"upscaled": 7, "exif_orientation": 1_200},
        "classes": ["cat", "dög\n", "owl"],
        "splits": {
            "train": {
                "records": 10_000,
                "bytes": 210_000_000,
                "shards": 2,
                "min_bytes": 104_000_000,
                "mean_bytes": 105_000_000,
                "max_bytes": 106_000_000,
                "class_counts": {"cat": 9_000, "dög\n": 999, "owl": 1},
            },
            "validation": {
                "records": 2_000,
                "bytes": 42_000,
                "shards": 1,
                "min_bytes": 42_000,
                "mean_bytes": 42_000,
                "max_bytes": 42_000,
                "class_counts": {"cat": 2_000, "dög\n": 0, "owl": 0},
            },
        },
        "encoded_in_this_run": 12_000,
        "seconds": 20.04,
        "duplicates": None,
        "notes": ["note"],
    }


def test_what_does_not_match_has_a_line() -> None:
    manifest = replace(BUILT.manifest, skipped={"no_row": 1}, listing={"rows_without_image": 2_000})
    text = replace(BUILT, manifest=manifest).to_text()
    assert "  unmatched  1 image without a row, 2,000 rows without an image -> unmatched.jsonl\n" in text
    assert "unmatched" not in BUILT.to_text()


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({"pairs": 0, "groups": 0, "flat": 0, "crowded": 0}, "none"),
        ({"pairs": 9, "groups": 9, "labels": 1, "splits": 2, "flat": 0, "crowded": 0},
         "9 pairs of near-duplicates: 1 with two labels, 2 across splits -> duplicates.jsonl"),
        ({"pairs": 2_000, "groups": 1, "labels": 1, "splits": 0, "flat": 12, "crowded": 0},
         "2,000 pairs of near-duplicates in 1 group: 1 with two labels, 0 across splits -> duplicates.jsonl "
         "(12 of almost no contrast or structure were compared by their bytes only)"),
        ({"pairs": 0, "groups": 0, "flat": 12, "crowded": 1_510},
         "none (12 of almost no contrast or structure were compared by their bytes only; "
         "1,510 among too many near ones were not compared with all of them)"),
    ],
)  # fmt: skip
def test_duplicates_have_a_line(counts: dict[str, int], line: str) -> None:
    text = replace(BUILT, manifest=replace(BUILT.manifest, duplicates=counts)).to_text()
    assert f"  duplicates {line}\n" in text
