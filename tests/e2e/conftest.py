"""Servers for whole builds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.cloud import IN, OUT, Cloud, few_parts, photo_server, published
from tests.kit.images import make_photos, write
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve photos of two classes, an empty one, and a file that is not listed as an image."""
    folder = make_photos(tmp_path_factory.mktemp("input") / "photos")
    write(folder, "cat/empty.jpg", b"")
    write(folder, "dog/notes.txt", b"walk him")
    return folder


@pytest.fixture
def server(photos: Path) -> Iterator[StrictGCS]:
    """Our own server: photos below ``IN``, an empty bucket for ``OUT``, 3 names per page."""
    with photo_server(photos) as strict:
        yield strict


@pytest.fixture
def cloud(server: StrictGCS, tmp_path: Path) -> Cloud:
    """``server`` as processes see it."""
    return Cloud(server.url, tmp_path)


@dataclass(frozen=True)
class Undisturbed:
    """What a build from ``IN`` to ``OUT`` makes and asks if nothing goes wrong."""

    digests: dict[str, str]
    log: tuple[Request, ...]


@pytest.fixture(scope="session")
def undisturbed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Made on a server of its own, whose objects have the same generations."""
    with photo_server(photos) as server:
        Cloud(server.url, tmp_path_factory.mktemp("home")).built(IN, OUT, hooks=[few_parts])
        return Undisturbed(published(server), tuple(server.log))
