"""What decides an image's bytes besides the options: versions of codecs. Part of the fingerprint.

``codec_versions`` asks the loaded libraries, and names only those that can change a byte under the
given options. Pillow's wheels bundle their codecs but take zlib from the system: if zlib were named
for JPEG output, a worker would be refused for a difference that no byte shows. ``ENCODER_REVISION``
(``transforms/options.py``) stands for our own code: if a change of ours alters a byte, the golden
digests in the tests fail, and the revision must be raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import PIL
import simplejpeg
from PIL import features

from shardfeed.transforms.images.formats.table import INPUT_FORMATS
from shardfeed.transforms.images.options import ImageOptions


def codec_versions(options: ImageOptions | None = None) -> dict[str, str]:
    """Library -> version of all that can change a byte under ``options`` (None: under any)."""
    versions = dict(_usual())
    if options is not None and options.format != "png":
        del versions["zlib"]  # inflating is exact, deflating is not
    if options is not None and options.resizer != "simd":
        del versions["cykooz_resizer"]
    for name in INPUT_FORMATS if options is None else options.formats:
        if own := _OF_FORMAT.get(name):
            versions |= own()
    return versions


@lru_cache(maxsize=1)
def _usual() -> tuple[tuple[str, str], ...]:
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


def _of_heic() -> Mapping[str, str]:
    try:
        import pi_heif
    except ModuleNotFoundError:  # a build that reads HEIC was refused before
        return {}

    found = pi_heif.libheif_info()
    decoder = re.search(r"[0-9.]+$", found["decoders"].get("libde265", ""))
    return {
        "pi_heif": pi_heif.__version__,
        "libheif": str(found["libheif"]),
        "libde265": decoder[0] if decoder else "none",
    }


def _of_jxl() -> Mapping[str, str]:
    try:
        import pylibjxl
    except ModuleNotFoundError:
        return {}

    return {"pylibjxl": version("pylibjxl"), "libjxl": "{major}.{minor}.{patch}".format(**pylibjxl.version())}


# Of the formats that are decoded by a library that no other format needs.
_OF_FORMAT: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "avif": lambda: {"libavif": str(features.version_module("avif"))},
    "heic": _of_heic,
    "jxl": _of_jxl,
    "tiff": lambda: {"libtiff": str(features.version_codec("libtiff"))},
}
