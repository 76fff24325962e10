"""Everything besides the options that decides what bytes an image becomes. Part of the fingerprint.

One decision: two lists. ``codec_versions`` is asked of the libraries that are really loaded (a wheel bundles its own
libjpeg-turbo and zlib, a distribution's Pillow uses the system's). ``ENCODER_REVISION`` stands for our own code: the
golden digests in the tests fail when a change of ours alters a byte, and the remedy is to raise it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version

import PIL
from PIL import features

ENCODER_REVISION = 1


def codec_versions() -> dict[str, str]:
    """Library -> version of everything that can change a stored byte."""
    return dict(_versions())


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    return (
        ("pillow", PIL.__version__),
        ("libjpeg_turbo", str(features.version_feature("libjpeg_turbo"))),
        ("zlib", str(features.version_codec("zlib"))),
        ("zlib_ng", str(features.version_feature("zlib_ng"))),
        ("webp", str(features.version_module("webp"))),
        ("littlecms2", str(features.version_module("littlecms2"))),
        ("cykooz_resizer", version("cykooz-resizer")),
    )
