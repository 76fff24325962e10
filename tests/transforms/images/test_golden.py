"""Digests of encoded images: what our own code does to bytes, pinned.

``python -m tests.transforms.images.test_golden`` prints the table anew for the codecs that are
installed. If digests of codecs that were in the table change, our code changed a byte: raise
``ENCODER_REVISION``. For new codecs add them. PNG is digested with its pixel data inflated,
because zlib comes from the system and its bytes are not ours to pin.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import replace
from pathlib import Path

from shardfeed.transforms.images.formats.table import INPUT_FORMATS
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.options import ENCODER_REVISION
from tests.corpus.cases import CASES
from tests.kit import makers as m

TABLE = Path(__file__).with_name("golden.json")
DEFAULT = ImageOptions(height=48, width=64)
VARIANTS = {
    "default": DEFAULT,
    "squash": replace(DEFAULT, resize="squash"),
    "pad": replace(DEFAULT, resize="pad", background=(10, 20, 30)),
    "pad-odd-height": replace(DEFAULT, resize="pad", height=51),
    "pad-odd-width": replace(DEFAULT, resize="pad", width=67),
    "shortest": replace(DEFAULT, resize="shortest", height=48, width=48),
    "longest": replace(DEFAULT, resize="longest", height=48, width=48),
    "gray": replace(DEFAULT, channels="gray"),
    "quality-75": replace(DEFAULT, quality=75),
    "pillow": replace(DEFAULT, resizer="pillow"),
    "png": replace(DEFAULT, format="png"),
    "webp": replace(DEFAULT, format="webp"),
    "raw": replace(DEFAULT, format="raw"),
    "kept": replace(DEFAULT, height=300, width=400, keep_original=True),
}
# Made from a photo of 3:2: a photo of 4:3, like the target, would give the same bytes for all.
WIDE = ("default", "squash", "pad", "shortest")
SOURCES = [
    "90-ycck.jpg", "92-gray-16-transparent.png", "95-palette-transparent.png", "96-rgba.webp", "97-animated.gif",
    "101-adobe-rgb.jpg", "101-faded-profile.png", "101-near-srgb-2.png", "101-near-srgb-3.png", "103-exif-6.jpg",
    "108-progressive.jpg", "109-sixteen-bit.bmp",
]  # fmt: skip
REMEDY = "python -m tests.transforms.images.test_golden > new.json && mv new.json tests/transforms/images/golden.json"


def key() -> str:
    """The encoder revision and the codecs that every digest here depends on: a key of the table."""
    versions = codec_versions(ImageOptions(formats=("bmp", "gif", "jpeg", "png", "webp")))
    return f"revision {ENCODER_REVISION}: " + ", ".join(
        f"{name} {version}" for name, version in sorted(versions.items())
    )


def digests() -> dict[str, str]:
    """Case -> digest, with the installed codecs."""
    photo, wide_photo = _bitmap(400, 300), _bitmap(480, 320)
    jpeg = process_image(photo, replace(DEFAULT, height=300, width=400)).data
    wide_jpeg = process_image(wide_photo, replace(DEFAULT, height=320, width=480)).data
    sources = {case.name: case.make for case in CASES}
    found = {
        f"photo {name}": _digest(wide_jpeg if name in WIDE else jpeg, options) for name, options in VARIANTS.items()
    }
    found["bitmap default"] = _digest(photo, DEFAULT)
    found.update({f"{name} default": _digest(sources[name](), DEFAULT) for name in SOURCES})
    return found


def _bitmap(width: int, height: int) -> bytes:
    """Drawn by arithmetic and stored as BMP, so that only what is tested has a codec in it."""
    pixels = bytes(
        (x * y + 80 * channel + x * 3) // 7 & 255 for y in range(height) for x in range(width) for channel in range(3)
    )
    return m.bmp(width, height, 24, 0, b"", pixels)


def _digest(data: bytes, options: ImageOptions) -> str:
    stored = process_image(data, options).data
    if options.format == "png":
        start = stored.index(b"IDAT")
        size = int.from_bytes(stored[start - 4 : start], "big")
        stored = stored[:start] + zlib.decompress(stored[start + 4 : start + 4 + size])
    return hashlib.sha256(stored).hexdigest()[:16]


def test_no_stored_byte_changes_without_a_new_encoder_revision() -> None:
    table = json.loads(TABLE.read_text())
    assert key() in table, f"No digests for {key()}. If revision or codecs are new, add them: {REMEDY}"
    assert digests() == table[key()], f"Our code changed stored bytes: raise ENCODER_REVISION, then {REMEDY}"


def test_only_codecs_that_can_change_a_byte_are_named() -> None:
    everything = codec_versions()
    assert sorted(everything) == [
        "cykooz_resizer", "libavif", "libde265", "libheif", "libjpeg_turbo", "libjxl", "libtiff", "littlecms2", "pi_heif",
        "pillow", "pylibjxl", "simplejpeg", "simplejpeg_libjpeg_turbo", "webp", "zlib",
    ]  # fmt: skip
    assert set(everything) - set(codec_versions(ImageOptions())) == {"zlib", "libtiff", "pylibjxl", "libjxl"}
    all_formats = ImageOptions(format="png", resizer="pillow", formats=tuple(sorted(INPUT_FORMATS)))
    assert set(everything) - set(codec_versions(all_formats)) == {"cykooz_resizer"}


if __name__ == "__main__":
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    print(json.dumps(table | {key(): digests()}, indent=1, sort_keys=True))
