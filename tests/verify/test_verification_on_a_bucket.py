"""The same verification on ``gs://``, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardfeed
from shardfeed.inspection.first_records import first_records
from shardfeed.inspection.summary import dataset_summary
from shardfeed.verification.dataset import verify
from tests.kit.datasets import upload


@pytest.fixture
def url(gcs_bucket: str) -> str:
    return f"{gcs_bucket}/flowers"


def test_an_undamaged_dataset_is_in_order(out: Path, url: str) -> None:
    upload(out, url)
    local = verify(out, deep=True)
    assert verify(url, deep=True) == local
    assert (local.findings, local.records) == ((), 18)


def test_the_summary_and_the_first_records_are_those_of_the_folder(out: Path, url: str) -> None:
    upload(out, url)
    assert dataset_summary(shardfeed.info(url)) == dataset_summary(shardfeed.info(out)).replace(str(out), url)
    assert first_records(shardfeed.info(url), "train", 7) == first_records(shardfeed.info(out), "train", 7)
