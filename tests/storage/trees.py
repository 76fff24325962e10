"""What lies on a disk."""

from __future__ import annotations

from pathlib import Path


def files(root: Path) -> dict[str, bytes]:
    """Contents by path below ``root``."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
