from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format import naming

SPLITS = st.from_regex(naming.SPLIT_NAME, fullmatch=True)
NUMBERS = st.integers(0, 10**7)


def test_names_are_the_same_for_ever() -> None:
    print_ = "0123456789abcdef"
    made = {
        naming.shard_name("train", 0, 16): "train-00000-of-00016.tfrecord",
        naming.shard_name("test", 123_456, 200_000): "test-123456-of-200000.tfrecord",
        naming.index_name(naming.shard_name("train", 15, 16)): "train-00015-of-00016.tfrecord.idx",
        naming.table_name(naming.shard_name("train", 15, 16)): "train-00015-of-00016.parquet",
        naming.split_index_name("train"): "train.index",
        naming.split_classes_name("train"): "train.classes",
        naming.rejects_name(0, 2): "rejects-00000-of-00002.jsonl",
        naming.work_folder(print_): "_parts/0123456789abcdef",
        naming.sidecar_name(print_, "train", 17): "_parts/0123456789abcdef/train/00017.json",
        naming.part_name(print_, "train", 17, 0xABC, 1234): "_parts/0123456789abcdef/train/00017-00000abc-1234",
        naming.outcome_name("run-1"): "_parts/outcome-run-1.json",
        naming.MANIFEST: "manifest.json",
        naming.RUN: "run.json",
        naming.CLASSES: "classes.txt",
        naming.DATASET_INFO: "dataset_info.json",
        naming.FEATURES: "features.json",
        naming.CLASS_LABELS: "class.labels.txt",
        naming.CLAIM: "_parts/CLAIM",
    }
    assert list(made) == list(made.values())


@given(split=SPLITS, index=NUMBERS, count=NUMBERS)
def test_every_name_that_we_make_is_ours(split: str, index: int, count: int) -> None:
    shard = naming.shard_name(split, index, count)
    for name in (shard, naming.index_name(shard), naming.table_name(shard)):
        assert naming.is_ours(name) and naming.is_shard(name) and not naming.is_rejects(name)
    assert [naming.is_table(name) for name in (shard, naming.index_name(shard), naming.table_name(shard))] == [0, 0, 1]
    for name in (naming.split_index_name(split), naming.split_classes_name(split)):
        assert naming.is_ours(name) and naming.is_split_index(name) and not naming.is_shard(name)
    rejects = naming.rejects_name(index, count)
    assert naming.is_ours(rejects) and naming.is_rejects(rejects) and not naming.is_shard(rejects)
    for name in (
        naming.sidecar_name("ab" * 16, split, index),
        naming.part_name("ab" * 16, split, index, 7, count),
        naming.index_piece_name("ab" * 16, shard, "offsets"),
        naming.outcome_name("x"),
        naming.CLAIM,
    ):
        assert naming.is_ours(name) and not naming.is_shard(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "README.md", "manifest.json.bak", "Manifest.json", "train.tfrecord", "train-0-of-1.tfrecord",
        "train-00000-of-00001.tfrecord.idx.idx", "train-00000-of-00001.tfrecord\n", "-00000-of-00001.tfrecord",
        "tr-ain-00000-of-00001.tfrecord", "sub/train-00000-of-00001.tfrecord", "../manifest.json", "parts/CLAIM",
        "rejects-1-of-2.jsonl", "_parts/ab/gear.stl", "_parts/notes.txt",
        "2.index", "train.parquet", "train-00000-of-00001.parquet.idx", "train.idx",
        "x" * 65 + "-00000-of-00001.tfrecord", "train-٠٠٠٠٠-of-00001.tfrecord.txt",
        "_parts",
    ],
)  # fmt: skip
def test_names_that_we_do_not_make_are_not_ours(name: str) -> None:
    assert not naming.is_ours(name)


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (True, ["train", "t", "Train_2", "a" * 64]),
        (False, ["", "2train", "_train", "tr ain", "tr/ain", "tr.ain", "tr-ain", "trän", "a" * 65, "a\n"]),
    ],
    ids=["allowed", "not allowed"],
)
def test_a_split_name_is_a_letter_then_letters_digits_and_underscores(allowed: bool, names: list[str]) -> None:
    assert {name: bool(naming.SPLIT_NAME.fullmatch(name)) for name in names} == dict.fromkeys(names, allowed)
