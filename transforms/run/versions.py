"""Workers and launcher must have one Python, one Beam, one shardfeed and the same codecs.

Our steps travel by name: a worker of another version would run that version's steps. A worker
with other codecs would make another dataset than the launcher's machine. The first step looks
before anything is listed. A step that encodes looks again, because workers may differ.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping

from shardfeed._version import __version__
from shardfeed.errors import UsageError
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.versions import codec_versions

Versions = tuple[tuple[str, str], ...]

# Codecs that pip installs by themselves; the others come with one of them, or with Python.
_PACKAGES = {
    "pillow": "pillow",
    "simplejpeg": "simplejpeg",
    "cykooz_resizer": "cykooz-resizer",
    "pi_heif": "pi-heif",
    "pylibjxl": "pylibjxl",
}


def versions_here(image: ImageOptions | None = None) -> Versions:
    """(name, version) of everything that has to agree.

    Of Python only major and minor version, which decide whether code can be exchanged. Of codecs,
    those that can change a byte under ``image`` (None: under any).
    """
    return (
        ("Python", f"{sys.version_info.major}.{sys.version_info.minor}"),
        ("apache-beam", importlib.metadata.version("apache-beam")),
        ("shardfeed", __version__),
        *sorted(codec_versions(image).items()),
    )


def codec_pins(versions: Mapping[str, str]) -> str:
    """Requirements for pip of the packages that bring the codecs in ``versions``."""
    return " ".join(f"{_PACKAGES[name]}=={version}" for name, version in versions.items() if name in _PACKAGES)


def require_same_versions(launcher: Versions) -> None:
    """Compares the launcher's versions with this process's.

    Raises:
        UsageError: they differ.
    """
    here = dict(versions_here())
    differing = {name: version for name, version in launcher if here.get(name) != version}
    if not differing:
        return
    said = "; ".join(f"{name} {here.get(name)} there, {version} here" for name, version in differing.items())
    if differing.keys() <= codec_versions().keys():
        remedy = "Use one image for launcher and workers (Dockerfile makes one)"
        if pins := codec_pins(differing):
            remedy += f", or install the launcher's where the workers run (pip install {pins}; --setup_file does it)"
        raise UsageError(
            f"the workers run other codecs than this launcher, and would make other bytes: {said}. {remedy}."
        )
    raise UsageError(
        f"the workers run other versions than this launcher: {said}. Give an image with the launcher's "
        "versions (--sdk_container_image; Dockerfile makes one), or none, or launch with the image's versions."
    )
