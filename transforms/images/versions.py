"""What decides an image's bytes besides the options: versions of codecs. Part of the fingerprint.

``codec_versions`` asks the loaded libraries, and names only those that can change a byte under the
given options. Pillow's wheels bundle their codecs but take zlib from the system: if zlib were named
for JPEG output, a worker would be refused for a difference that no byte shows. ``ENCODER_REVISION``
(``transforms/options.py``) stands for our own code: if a change of ours alters a byte, the golden
digests in the tests fail, and the revision must be raised.
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
    """Library -> version of all that can change a byte under ``options`` (None: under any)."""
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
    """The version of libjpeg-turbo in simplejpeg's wheel, by that library's banner."""
    banner = re.search(rb"libjpeg-turbo version ([0-9.]+)", Path(simplejpeg._jpeg.__file__).read_bytes())
    return banner[1].decode() if banner else "shared"
