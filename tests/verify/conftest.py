"""One dataset for each test, which may damage it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.damage import dataset


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Folder of an undamaged dataset."""
    dataset(tmp_path / "out")
    return tmp_path / "out"
