"""Servers for whole builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cloud import Cloud, tree
from tests.fakes.strict_gcs import StrictGCS
from tests.promises.photos import make_photos, write


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve photos of two classes, one file that is none, and one that is not listed as an image."""
    folder = make_photos(tmp_path_factory.mktemp("input") / "photos")
    write(folder, "cat/empty.jpg", b"")
    write(folder, "dog/notes.txt", b"walk him")
    return folder


@pytest.fixture
def server(photos: Path) -> Iterator[StrictGCS]:
    """Our own server, with the photos in the bucket ``photos`` and an empty bucket ``data``; three names a page."""
    with StrictGCS(page_size=3) as strict:
        for name, data in tree(photos).items():
            strict.objects.put("photos", f"in/{name}", data)
        strict.objects.buckets["data"] = {}
        yield strict


@pytest.fixture
def cloud(server: StrictGCS, tmp_path: Path) -> Cloud:
    """``server`` as processes see it."""
    home = tmp_path / "home"
    home.mkdir()
    return Cloud(server.url, home)
