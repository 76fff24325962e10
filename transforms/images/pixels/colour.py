"""Pixels of any mode become 8-bit gray or RGB in sRGB.

The profile of a plain RGB or gray image is applied after resizing, when there are 50 k pixels and
not millions. Images with alpha, a palette or inks are brought to plain form first. Whether a
profile *is* sRGB is measured, not read from its name, because cameras write dozens of variants: if
512 sample colours change by 2 levels at most, no transform is needed.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

from PIL import Image, ImageChops, ImageCms

from shardfeed.transforms.images.options import ImageOptions

_MAX_PROFILE = 4 << 20  # bytes; printing profiles have 0.5-3 MB
_SAME = 2  # levels
_INTENT = ImageCms.Intent.RELATIVE_COLORIMETRIC
_FLAGS = ImageCms.Flags.BLACKPOINTCOMPENSATION
_BROKEN, _IDENTITY = "broken", "identity"


def to_plain(
    image: Image.Image, raw_mode: str, background: tuple[int, int, int], fixes: set[str]
) -> tuple[Image.Image, bytes | None]:
    """``image`` as opaque 8-bit ``L`` or ``RGB``, and the profile that is still to be applied."""
    profile = image.info.get("icc_profile")
    transparency = image.info.get("transparency")
    if ";16" in raw_mode:
        fixes.add("sixteen_bit_scaled")
    if transparency is None and image.mode in ("RGB", "L"):
        return image, profile
    if image.mode == "CMYK":
        fixes.add("cmyk_to_rgb")
        return _from_inks(image, profile, fixes), None
    plain, alpha = _split(image, raw_mode, transparency, fixes)
    if alpha is None or alpha.getextrema()[0] == 255:
        return plain, profile
    fixes.add("alpha_composited")
    plain = to_srgb(plain, profile, fixes)
    if plain.mode == "L" and len(set(background)) > 1:
        plain = plain.convert("RGB")
    plain.paste(fill_colour(plain.mode, background), (0, 0, *plain.size), ImageChops.invert(alpha))
    return plain, None


def to_srgb(image: Image.Image, profile: Any, fixes: set[str]) -> Image.Image:
    """Applies ``profile`` to an ``L`` or ``RGB`` image; an unusable one leaves it as it is."""
    if not profile:
        return image
    transform = _transform(profile, image.mode) if isinstance(profile, bytes) else _BROKEN
    if transform == _BROKEN:
        fixes.add("icc_broken")
    elif isinstance(transform, ImageCms.ImageCmsTransform):
        fixes.add("icc_to_srgb")
        return transform.apply(image)
    return image


def is_srgb(profile: Any, mode: str) -> bool:
    """True if ``profile`` is absent, or changes no colour by more than 2 levels."""
    return not profile or (isinstance(profile, bytes) and _transform(profile, mode) == _IDENTITY)


def to_channels(image: Image.Image, options: ImageOptions, fixes: set[str]) -> Image.Image:
    """``L`` or ``RGB``, whichever the options ask for."""
    if options.channels == "gray":
        return image if image.mode == "L" else image.convert("L")
    if image.mode == "RGB":
        return image
    fixes.add("gray_to_rgb")
    return image.convert("RGB")


def fill_colour(mode: str, background: tuple[int, int, int]) -> int | tuple[int, int, int]:
    """``background`` as a pixel of ``mode``; gray by Pillow's own weights (ITU-R 601-2)."""
    red, green, blue = background
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16 if mode == "L" else background


def _split(
    image: Image.Image, raw_mode: str, transparency: Any, fixes: set[str]
) -> tuple[Image.Image, Image.Image | None]:
    """Opaque pixels, and the alpha mask if there is one."""
    mode = image.mode
    if mode.startswith("I"):
        return _from_16_bit(image), _where_not(image, transparency)
    if mode in ("LA", "La"):
        return image.getchannel(0), image.getchannel(1)
    if mode in ("P", "PA"):
        fixes.add("palette_expanded")
    if transparency is not None and mode != "RGBA":
        image.info["transparency"] = _usable_transparency(mode, raw_mode, transparency)
        if image.info["transparency"] is None:
            del image.info["transparency"]
            return image.convert("L" if mode in ("1", "L") else "RGB"), None
        clear = image.convert("RGBA")
        return clear.convert("L" if mode in ("1", "L") else "RGB"), clear.getchannel("A")
    if mode in ("RGBA", "RGBa", "PA"):
        clear = image if mode == "RGBA" else image.convert("RGBA")
        return clear.convert("RGB"), clear.getchannel("A")
    return image.convert("L" if mode in ("1", "L") else "RGB"), None


def _usable_transparency(mode: str, raw_mode: str, value: Any) -> Any:
    """``value`` as Pillow converts it, or None: a PNG's text chunk can put any string there."""
    if mode in ("P", "PA"):
        return value if isinstance(value, (int, bytes)) else None
    if mode == "RGB":
        if not (isinstance(value, tuple) and len(value) == 3 and all(isinstance(part, int) for part in value)):
            return None
        return tuple(part >> 8 for part in value) if ";16" in raw_mode else tuple(part & 255 for part in value)
    if not isinstance(value, int):
        return None
    return value * {"L;2": 85, "L;4": 17}.get(raw_mode, 1) & 255


def _from_16_bit(image: Image.Image) -> Image.Image:
    """0-65535 to 0-255, rounded. Pillow's own ``convert`` clips at 255 and gives white."""
    if image.mode == "I;16B":  # of a big-endian TIFF; Pillow scales the other two only
        image = image.convert("I")
    return image.point(lambda value: value * (1 / 257) + 0.5).convert("L")


def _where_not(image: Image.Image, value: Any) -> Image.Image | None:
    """Alpha mask that is transparent where a 16-bit pixel has the transparent value."""
    if not isinstance(value, int):
        return None
    low, high = Image.frombytes("LA", image.size, image.tobytes()).split()  # I;16 is little-endian everywhere
    other = [[0 if level == part else 255 for level in range(256)] for part in (value & 255, value >> 8 & 255)]
    return ImageChops.lighter(low.point(other[0]), high.point(other[1]))


def _from_inks(image: Image.Image, profile: Any, fixes: set[str]) -> Image.Image:
    """CMYK to RGB. Pillow inverts every CMYK JPEG; this undoes it for files not from Adobe."""
    if "adobe" not in image.info:
        image = ImageChops.invert(image)
    transform = _transform(profile, "CMYK") if isinstance(profile, bytes) and profile else None
    if isinstance(transform, ImageCms.ImageCmsTransform):
        return transform.apply(image)
    if transform == _BROKEN:
        fixes.add("icc_broken")
    return image.convert("RGB")


@lru_cache(maxsize=16)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | str:
    """Transform to sRGB, "identity" or "broken". Applying only reads it, so threads share it."""
    if len(profile) > _MAX_PROFILE:
        return _BROKEN
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB", _INTENT, _FLAGS)
        assert isinstance(transform, ImageCms.ImageCmsTransform)
        if mode != "CMYK" and _is_identity(transform, mode):
            return _IDENTITY
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return _BROKEN
    return transform


def _is_identity(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    levels = [round(step * 255 / 7) for step in range(8)]
    if mode == "L":
        sample = Image.frombytes("L", (256, 1), bytes(range(256)))
    else:
        colours = bytes(part for red in levels for green in levels for blue in levels for part in (red, green, blue))
        sample = Image.frombytes("RGB", (512, 1), colours)
    change = ImageChops.difference(transform.apply(sample), sample.convert("RGB"))
    return all(high <= _SAME for _, high in change.getextrema())  # type: ignore[misc]
