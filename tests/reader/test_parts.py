"""Parts of splits, ``"train[:10%]"``: the same records in every reader, and only those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.format.record_index import parse_header
from shardfeed.inspection.first_records import first_records
from shardfeed.sampling.host_share import host_range
from tests.kit.datasets import Written
from tests.kit.indexes import without_indexes
from tests.reader.streams import by_reader, lossless, numbers

N = 37


PARTS = {
    "train[:10%]": range(4),
    "train[10%:]": range(4, N),
    "train[5:7]": range(5, 7),
    "train[:]": range(N),
    "train[13:29]": range(13, 29),
    "train[-3:]": range(34, N),
    "train[-50%:100%]": range(19, N),  # 18.5 is rounded to the even 18
    "train[12.5%:30]": range(5, 30),
    "train[0:37]": range(N),
}


def test_a_part_is_spelled_in_numbers_and_percentages(written: Written) -> None:
    splits = shardfeed.info(written.path).splits

    assert {name: splits[name].part for name in PARTS} == PARTS


@by_reader("split,hosts", [("train[5:7]", 2), ("train[-50%:100%]", 1), ("train[12.5%:30]", 2)], load=[2])
def test_a_part_holds_its_records_and_no_other(written: Written, reader: Any, split: str, hosts: int) -> None:
    part = PARTS[split]
    evaluated, trained = [], []
    for host in range(hosts):
        options = {"host": (host, hosts), "shuffle_buffer": 5000}
        evaluated += numbers(reader(written.path, split, 2 * hosts, training=False, **options), written, "train")
        share = len(host_range(len(part), host, hosts))
        trained += numbers(reader(written.path, split, hosts, **options), written, "train", share)

    assert [number for number in evaluated if number >= 0] == sorted(trained) == list(part)


def test_a_part_is_the_same_in_every_cache(written: Written, tmp_path: Path) -> None:
    def train(cache: Any) -> list[int]:
        return numbers(shardfeed.load(written.path, "train[13:29]", 5, cache=cache), written, "train", 9)

    assert train(tmp_path) == train("decoded") == train(None)
    # only the shards that hold a record of it
    assert len(list(tmp_path.rglob("*.tfrecord"))) == 2


def test_a_part_is_described_as_a_split(written: Written) -> None:
    info = shardfeed.info(written.path)
    part = info.splits["train[13:29]"]

    assert (part.name, part.num_records, part.part) == ("train[13:29]", 16, range(13, 29))
    assert part.fingerprint == f"{info.fingerprint}[13:29]"
    assert info.splits["train"].fingerprint == info.fingerprint
    assert info.splits["train[35%:29]"].fingerprint == part.fingerprint
    assert part.shards == info.splits["train"].shards[1:]
    blocks = [block for shard in info.splits["train"].shards for block in shard.blocks]
    ends = np.cumsum([records for records, _ in blocks])
    held = [size for (records, size), end in zip(blocks, ends, strict=True) if end > 13 and end - records < 29]
    assert part.bytes == sum(held)
    assert info.steps_per_epoch("train[13:29]", 5) == 3 and info.evaluation_steps("train[13:29]", 5) == 4
    assert "train[13:29]" not in info.splits and list(info.splits) == ["train", "validation"]


def test_the_first_records_of_a_part(written: Written) -> None:
    found = first_records(shardfeed.info(written.path), "train[13:29]", 100)

    assert [record.key for record in found] == [record.key for record in written.records["train"][13:29]]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            "train[10%]",
            "split 'train[10%]': expected [start:stop], each a record number, a percentage from -100 % to 100 %, or left "
            "out, such as train[:10%] or train[1000:2000].",
        ),
        ("train[:101%]", "split 'train[:101%]': 101% is not from -100% to 100%."),
        ("train[:38]", "split 'train[:38]': 38 is beyond its 37 records. Give numbers from -37 to 37."),
        ("train[-38:]", "split 'train[-38:]': -38 is beyond its 37 records. Give numbers from -37 to 37."),
        (
            "train[5:5]",
            "split 'train[5:5]': no record lies from 5 to 5. Give a wider part, with a start below the stop.",
        ),
        (
            "train[:1%]",
            "split 'train[:1%]': no record lies from 0 to 0. Give a wider part, with a start below the stop.",
        ),
        (
            "other[:5]",
            "split 'other[:5]' is not in the dataset at PATH: its splits are train, validation. Name one of these, or build "
            "the dataset again with --splits, for example train=0.9,validation=0.1.",
        ),
    ],
)
def test_a_wrong_slice_says_what_is_allowed(written: Written, split: str, message: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.info(written.path).splits[split]

    assert str(found.value).replace(str(written.path), "PATH") == message


def test_parts_of_a_split_that_is_evaluated_are_evaluated(written: Written) -> None:
    assert len(shardfeed.load(written.path, "validation[:50%]", 2).element_spec) == 3
    with pytest.warns(UserWarning, match="is for training"):
        shardfeed.info(written.path).steps_per_epoch("validation[:50%]", 2)


def test_class_counts_of_a_part_come_from_the_index_of_classes(tmp_path: Path) -> None:
    written = lossless(tmp_path)
    info = shardfeed.info(tmp_path)
    labels = np.array([record.label for record in written.records["train"]])

    counts = np.bincount(labels[13:29], minlength=3)
    assert dict(info.splits["train[13:29]"].class_counts) == dict(zip(info.classes, counts.tolist(), strict=True))
    assert info.class_weight("train[13:29]") == pytest.approx(dict(enumerate(16 / (3 * counts))))

    data = (tmp_path / "train.classes").read_bytes()
    header = replace(parse_header(data, "classes"), fingerprint="0" * 32)
    (tmp_path / "train.classes").write_bytes(header.to_bytes() + data[64:])
    with pytest.raises(shardfeed.DatasetError, match=r"train.classes is damaged: fingerprint 0{32}, expected"):
        info.class_weight("train[13:29]")


def test_class_counts_of_a_part_without_that_index_are_an_error(tmp_path: Path) -> None:
    lossless(tmp_path)
    without_indexes(tmp_path)
    info = shardfeed.info(tmp_path)

    with pytest.raises(shardfeed.UsageError) as unknown:
        info.class_weight("train[13:29]")
    assert str(unknown.value) == (
        f"class counts of train[13:29] are not known: the dataset at {tmp_path} has no train.classes. Use those of train, or "
        "build the dataset again, which writes it."
    )
