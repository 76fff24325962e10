"""One dataset for each test, which may damage it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.verify.damage import dataset


@pytest.fixture(scope="session")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset that is copied for each test."""
    return dataset(tmp_path_factory.mktemp("undamaged")).path


@pytest.fixture
def out(undamaged: Path, tmp_path: Path) -> Path:
    """Folder of an undamaged dataset."""
    return Path(shutil.copytree(undamaged, tmp_path / "out"))
