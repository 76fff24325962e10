"""The same verification on ``gs://``, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.dataset.first_records import first_records
from shardfeed.inspection.summary import card
from shardfeed.transforms import stores
from shardfeed.verification.dataset import verify
from tests.kit.tiny import columns, tiny
from tests.verify.damage import append, flip, records

SHARD = "train-00001-of-00003.tfrecord"


def upload(folder: Path, url: str) -> None:
    store = stores.open_output(url)
    for file in folder.iterdir():
        assert store.create(file.name, file.read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny().write(tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def url(gcs_bucket: str) -> str:
    return f"{gcs_bucket}/flowers"


def test_an_undamaged_dataset_is_in_order(folder: Path, url: str) -> None:
    upload(folder, url)
    local = verify(folder, deep=True)
    assert verify(url, deep=True) == local
    assert (local.findings, local.records) == ((), 19)


def test_damage_is_found_with_file_and_byte(folder: Path, url: str) -> None:
    offset, _ = records(folder / SHARD)[2]
    flip(folder / SHARD, offset + 30)
    size = (folder / "classes.txt").stat().st_size
    append(folder / "classes.txt", b"x")
    (folder / "features.json").unlink()
    upload(folder, url)
    report = verify(url, deep=True)
    assert [(finding.file, finding.offset, finding.what) for finding in report.findings] == [
        ("classes.txt", size, "size"),
        ("features.json", None, "file"),
        (SHARD, offset, "record 2: crc of the data"),
    ]
    assert report.findings[2].remedy == f"Restore {SHARD} from a copy, or delete {url} and build again."


def test_the_card_and_the_first_records_are_those_of_the_folder(folder: Path, url: str) -> None:
    upload(folder, url)
    assert card(url) == card(folder).replace(str(folder), url)
    assert [record.key for record in first_records(url, "train", 7)] == [columns(number)["key"] for number in range(7)]
