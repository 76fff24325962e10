"""The same verification on ``gs://``, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.inspection.first_records import first_records
from shardfeed.inspection.summary import dataset_summary
from shardfeed.transforms import stores
from shardfeed.verification.dataset import verify
from tests.verify.damage import REJECTS, SHARD, append, dataset, flip, records


def upload(folder: Path, url: str) -> None:
    store = stores.open_output(url)
    for file in folder.iterdir():
        assert store.create(file.name, file.read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dataset(tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def url(gcs_bucket: str) -> str:
    return f"{gcs_bucket}/flowers"


def test_an_undamaged_dataset_is_in_order(folder: Path, url: str) -> None:
    upload(folder, url)
    local = verify(folder, deep=True)
    assert verify(url, deep=True) == local
    assert (local.findings, local.records) == ((), 18)


def test_damage_is_found_with_file_and_byte(folder: Path, url: str) -> None:
    offset, _ = records(folder / SHARD)[2]
    flip(folder / SHARD, offset + 30)
    size = (folder / "classes.txt").stat().st_size
    append(folder / "classes.txt", b"x")
    (folder / REJECTS).unlink()
    upload(folder, url)
    report = verify(url, deep=True)
    assert [(finding.file, finding.offset, finding.what) for finding in report.findings] == [
        ("classes.txt", size, "size"),
        (REJECTS, None, "file"),
        (SHARD, offset, "record 2: crc of the data"),
    ]
    assert report.findings[2].remedy == f"Restore {SHARD} from a copy, or delete {url} and build again."


def test_the_summary_and_the_first_records_are_those_of_the_folder(folder: Path, url: str) -> None:
    upload(folder, url)
    assert dataset_summary(url) == dataset_summary(folder).replace(str(folder), url)
    assert first_records(url, "train", 7) == first_records(folder, "train", 7)
