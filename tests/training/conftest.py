"""One dataset for all training tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kit.datasets import Written, write_dataset

RECORDS = {"train": 203, "validation": 103}


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """203 training and 103 validation images of 8 × 8, losslessly stored; validation.npz holds the
    latter's pixels.
    """
    folder = tmp_path_factory.mktemp("training")
    dataset = write_dataset(folder / "dataset", image_format="raw", size=(8, 8), splits=RECORDS, block_records=7)
    for split, records in dataset.records.items():
        pixels, labels = (np.stack([record.pixels for record in records]), [record.label for record in records])
        np.savez(folder / f"{split}.npz", pixels=pixels, labels=np.array(labels))
    return dataset


@pytest.fixture(scope="session")
def dataset(written: Written) -> Path:
    return written.path
