"""Workers and launcher must be of one Python, one Beam and one shardfeed.

Our steps travel by name, so a worker of another version would load and run them, as that version has them. The first step looks
before anything is listed: one image for all workers makes one look enough.
"""

from __future__ import annotations

import importlib.metadata
import sys

from shardfeed._version import __version__
from shardfeed.errors import UsageError

Versions = tuple[tuple[str, str], ...]


def versions_here() -> Versions:
    """(name, version) of what has to agree; of Python, what decides whether code can be exchanged."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (("Python", python), ("apache-beam", importlib.metadata.version("apache-beam")), ("shardfeed", __version__))


def require_same(launcher: Versions) -> None:
    """Compares the launcher's versions with this process's.

    Raises:
        UsageError: they differ.
    """
    here = dict(versions_here())
    differing = [
        f"{name} {here.get(name)} there, {version} here" for name, version in launcher if here.get(name) != version
    ]
    if differing:
        raise UsageError(
            f"the workers run other versions than this launcher: {'; '.join(differing)}. Give an image with the launcher's "
            "versions (--sdk_container_image; Dockerfile makes one), or none, or launch with the image's versions."
        )
