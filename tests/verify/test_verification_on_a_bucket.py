"""The same verification on ``gs://``, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.inspection.first_records import first_records
from shardfeed.inspection.summary import dataset_summary
from shardfeed.verification.dataset import verify
from tests.kit.datasets import upload
from tests.verify.damage import REJECTS, SHARD, append, flip, records


@pytest.fixture
def url(gcs_bucket: str) -> str:
    return f"{gcs_bucket}/flowers"


def test_an_undamaged_dataset_is_in_order(out: Path, url: str) -> None:
    upload(out, url)
    local = verify(out, deep=True)
    assert verify(url, deep=True) == local
    assert (local.findings, local.records) == ((), 18)


def test_damage_is_found_with_file_and_byte(out: Path, url: str) -> None:
    offset, _ = records(out / SHARD)[2]
    flip(out / SHARD, offset + 30)
    size = (out / "classes.txt").stat().st_size
    append(out / "classes.txt", b"x")
    (out / REJECTS).unlink()
    upload(out, url)
    report = verify(url, deep=True)
    assert [(finding.file, finding.offset, finding.what) for finding in report.findings] == [
        ("classes.txt", size, "size"),
        (REJECTS, None, "file"),
        (SHARD, offset, "record 2: crc of the data"),
    ]
    assert report.findings[2].remedy == f"Restore {SHARD} from a copy, or delete {url} and build again."


def test_the_summary_and_the_first_records_are_those_of_the_folder(out: Path, url: str) -> None:
    upload(out, url)
    assert dataset_summary(url) == dataset_summary(out).replace(str(out), url)
    assert first_records(url, "train", 7) == first_records(out, "train", 7)
