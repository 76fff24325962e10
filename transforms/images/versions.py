"""Everything besides the options that decides what bytes an image becomes. Part of the fingerprint.

``codec_versions`` is asked of the libraries that are really loaded, and only of those that can change a byte under the
given options: Pillow's wheels bundle their codecs but take zlib from the system, so naming it for JPEG output would
refuse a worker for a difference that no byte shows. ``ENCODER_REVISION`` (``transforms/options.py``) stands for our own
code: the golden digests in the tests fail when a change of ours alters a byte, and the remedy is to raise it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import PIL
import simplejpeg
from PIL import features

from shardfeed.transforms.images.options import ImageOptions


def codec_versions(options: ImageOptions | None = None) -> dict[str, str]:
    """Library -> version of everything that can change a stored byte under ``options`` (None: under any)."""
    versions = dict(_versions())
    if options is not None and options.format != "png":
        del versions["zlib"]  # inflating is exact, deflating is not
    if options is not None and options.resizer != "simd":
        del versions["cykooz_resizer"]
    return versions


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    return (
        ("pillow", PIL.__version__),
        ("libjpeg_turbo", str(features.version_feature("libjpeg_turbo"))),
        ("simplejpeg", simplejpeg.__version__),
        ("simplejpeg_libjpeg_turbo", _bundled_libjpeg()),
        ("zlib", str(features.version_codec("zlib"))),
        ("webp", str(features.version_module("webp"))),
        ("littlecms2", str(features.version_module("littlecms2"))),
        ("cykooz_resizer", version("cykooz-resizer")),
    )


def _bundled_libjpeg() -> str:
    """The libjpeg-turbo in simplejpeg's wheel, by the banner of that library: simplejpeg does not say it."""
    banner = re.search(rb"libjpeg-turbo version ([0-9.]+)", Path(simplejpeg._jpeg.__file__).read_bytes())
    return banner[1].decode() if banner else "shared"
