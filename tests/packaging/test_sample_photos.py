"""The photos that the repository ships, and that it may ship them."""

from __future__ import annotations

from pathlib import Path

from tests.kit import sources

PHOTOS = sources.ROOT / "examples" / "sample_photos"


def test_there_are_twenty_photos_of_each_of_ten_classes_and_nothing_else() -> None:
    counts: dict[Path, int] = {}
    for path in PHOTOS.rglob("*"):
        if path.is_file():
            counts[path.parent.relative_to(PHOTOS)] = counts.get(path.parent.relative_to(PHOTOS), 0) + 1
            assert path.suffix == ".jpg"
            assert path.read_bytes()[:3] == b"\xff\xd8\xff"
    names = ["dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt"]
    assert counts == dict.fromkeys(map(Path, names), 20)


def test_their_licence_and_origin_stand_beside_them() -> None:
    text = (PHOTOS.parent / "SAMPLE_PHOTOS.md").read_text()
    assert "CC0 1.0" in text
    assert "clothing-dataset-small" in text
