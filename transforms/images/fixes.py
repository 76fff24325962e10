"""Names of changes to an image beyond resizing. The report counts them; the manual explains each.

A fix is counted only if it changed this image. An RGBA image without a transparent pixel is not
"composited", and an embedded sRGB profile is not "converted": a count of everything says nothing.
"""

from __future__ import annotations

from typing import Final

FIXES: Final[dict[str, str]] = {
    "exif_orientation": "turned or mirrored upright, as its EXIF or XMP orientation or its container says",
    "jpeg_warning": "JPEG whose header libjpeg warns of; no pixel is lost",
    "jpeg_unchecked": "JPEG of a rare chroma sampling; Pillow decoded it, which does not report damage",
    "first_frame": "animated, or of several pages or pictures; the first frame, first page or main picture was taken",
    "cmyk_to_rgb": "CMYK or YCCK, converted to RGB (by its profile if it has a sound one)",
    "sixteen_bit_scaled": "more than 8 bits a sample, scaled to 8",
    "palette_expanded": "palette colours, expanded to RGB",
    "alpha_composited": "had transparent pixels, composited on the background colour",
    "icc_to_srgb": "converted from its embedded colour profile to sRGB",
    "icc_broken": "embedded colour profile unusable; the pixels were taken as sRGB",
    "hdr_as_sdr": "levels of HDR (PQ or HLG), taken as they are, without tone mapping",
    "gray_to_rgb": "grayscale, stored as RGB",
    "upscaled": "smaller than the target, enlarged",
    "kept_original": "stored without re-encoding; only metadata was dropped",
}
"""Fix -> what it means. The order is the order in ``EncodedImage.fixes``."""
