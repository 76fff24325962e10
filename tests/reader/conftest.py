"""The dataset of most tests here."""

from __future__ import annotations

import pytest

from tests.kit.datasets import Written
from tests.reader.streams import lossless


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """``lossless``; nobody changes it."""
    return lossless(tmp_path_factory.mktemp("dataset"))
