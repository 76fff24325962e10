"""JPEG XL by pylibjxl: libjxl, which turns the picture upright while it decodes."""

from __future__ import annotations

from PIL import Image


def load_jxl(data: bytes, animated: bool) -> Image.Image:
    """The pixels (of the first frame), upright, of 8 bits; ``info`` has ``icc_profile`` alone."""
    import pylibjxl  # of the extra "formats"

    pixels, found = pylibjxl.decode(data, metadata=True)
    if animated:  # with the metadata comes the last frame
        pixels = pylibjxl.decode(data)
    image = Image.fromarray(pixels)
    if profile := found.get("icc"):
        image.info["icc_profile"] = profile
    return image
