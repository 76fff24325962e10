"""What a source lists."""

from __future__ import annotations

from shardfeed.transforms.sources.base import Listed, Source


def listing(source: Source) -> dict[bytes, Listed]:
    """What all sections hold, by key."""
    found = [entry for section in source.sections() for entry in source.list(section)]
    by_key = {entry.key: entry for entry in found}
    assert len(by_key) == len(found), "sections overlap"
    return by_key
