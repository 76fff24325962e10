"""One store and one source of every kind, so that the same sentences hold for all of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from shardfeed.storage import retry
from shardfeed.transforms import stores
from shardfeed.transforms.stores.base import WritableStore

NOBODY = 65534
OrdinaryUser = Callable[[], AbstractContextManager[Path]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between attempts, noted instead of waited for."""
    noted: list[float] = []
    monkeypatch.setattr(retry, "sleep", noted.append)
    return noted


@pytest.fixture(params=["local folder", "fake-gcs-server", "strict gcs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> WritableStore:
    """An empty output."""
    if request.param == "local folder":
        return stores.open_output(str(tmp_path / "out"))
    if request.param == "fake-gcs-server":
        return stores.open_output(f"{request.getfixturevalue('gcs_bucket')}/a/out")
    request.getfixturevalue("strict_gcs")
    return stores.open_output("gs://bucket/a/out")


@pytest.fixture
def as_ordinary_user() -> Iterator[OrdinaryUser]:
    """A folder in which permissions count, even if the tests run as root."""
    folder = Path(tempfile.mkdtemp())

    @contextmanager
    def ordinary() -> Iterator[Path]:
        root = os.geteuid() == 0
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)

    yield ordinary
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o700)
    shutil.rmtree(folder)
