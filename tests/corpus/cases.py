"""Every odd and hostile image that we know of, with what must become of it.

``outcome`` is "OK" or a reject reason, for the default options (224 x 224, crop, RGB, JPEG);
``fixes`` are those besides "upscaled", which nearly every small picture here has. Numbers in the
names are families: 5x wrong content, 6x and 7x damage, 8x extremes, 9x and 10x colour, orientation
and variants, 11x other formats, 12x attacks on the decoder itself.
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.kit import makers as m


@dataclass(frozen=True)
class Case:
    name: str
    outcome: str
    make: Callable[[], bytes]
    fixes: tuple[str, ...] = ()


def _jpeg(mode: str = "RGB", **options: object) -> bytes:
    return m.saved(m.photo(mode=mode), "JPEG", **options)


def _png(mode: str = "RGB", **options: object) -> bytes:
    return m.saved(m.photo(mode=mode), "PNG", **options)


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt", (1980, 1, 1, 0, 0, 0)), b"hello")
    return buffer.getvalue()


def _clear(mode: str) -> Image.Image:
    """A picture whose right half is transparent."""
    image = m.photo(mode="RGB" if mode == "RGBA" else "L").convert(mode)
    alpha = Image.new("L", m.SIZE, 255)
    alpha.paste(0, (48, 0, 96, 64))
    image.putalpha(alpha)
    return image


def _file(name: str) -> Callable[[], bytes]:
    return (Path(__file__).parent / "formats" / name).read_bytes


def _frames(kind: str) -> bytes:
    still = [m.photo(), m.photo().rotate(180)]
    return m.saved(still[0], kind, save_all=True, append_images=still[1:], duration=100)


def _bad_crc() -> bytes:
    data = m.with_chunks(_png(), m.chunk(b"gAMA", struct.pack(">I", 45455)))
    return m.patched(data, 33 + 8 + 4, b"\0\0\0\0")


def _swapped() -> bytes:
    """The frame header behind the first scan."""
    data = _jpeg()
    start = m.at_marker(data, 0xC0)
    end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
    return data[:start] + data[end:-2] + data[start:end] + data[-2:]


def _frame_marker(marker: int) -> bytes:
    data = _jpeg()
    return m.patched(data, m.at_marker(data, 0xC0) + 1, bytes([marker]))


def _jpeg_size(width: int, height: int) -> bytes:
    data = _jpeg()
    return m.patched(data, m.at_marker(data, 0xC0) + 5, struct.pack(">HH", height, width))


def _zeroed_middle() -> bytes:
    data = _jpeg(quality=95)
    middle = len(data) * 3 // 4
    return m.patched(data, middle, bytes(64))


def _text(key: bytes, value: bytes) -> bytes:
    return m.with_chunks(_png(), m.chunk(b"tEXt", key + b"\0" + value))


def _zeros_png(width: int, height: int) -> bytes:
    return m.png(m.header(width, height, 1, 0), m.chunk(b"IDAT", zlib.compress(bytes(1000))), m.END)


def _long(width: int, height: int) -> bytes:
    return m.saved(Image.new("L", (width, height), 100), "PNG")


def _webp() -> bytes:
    return m.saved(m.photo(), "WEBP")


def _bmp() -> bytes:
    return m.saved(m.photo(), "BMP")


def _cut(data: bytes, keep: float) -> bytes:
    return data[: int(len(data) * keep)]


def _two_headers() -> bytes:
    """The second one large, and a first frame whose disposal is a canvas of that size."""
    return m.with_chunks(_png(), m.header(12000, 12000, 8, 2), m.animation_control(12000, 12000, 1))


def _palette_text() -> bytes:
    return m.with_chunks(_png("P"), m.chunk(b"tEXt", b"transparency\0x"))


def _scaled_webp() -> bytes:
    """Asks to be shown larger, which no decoder heeds: the two high bits of width and height."""
    data = _webp()
    return m.patched(data, 26, struct.pack("<HH", 96 | 1 << 14, 64 | 1 << 14))


def _bomb() -> bytes:
    return zlib.compress(bytes(20 << 20), 9)


CASES: tuple[Case, ...] = (
    Case("53-png-named.jpg", "OK", _png),
    Case("54-html.jpg", "FORMAT", lambda: b"<!DOCTYPE html><title>404 Not Found</title>"),
    Case("55-text.jpg", "FORMAT", lambda: b"this is not an image\n"),
    Case("56-zip.jpg", "FORMAT", _zip),
    Case("57-pdf.jpg", "FORMAT", lambda: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"),
    Case("58-svg.png", "FORMAT", lambda: b'<?xml version="1.0"?><svg><script>alert(1)</script></svg>'),
    Case("59-eps.jpg", "FORMAT", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%id) (w) file\n"),
    Case("60-zip-behind.jpg", "OK", lambda: _jpeg() + _zip()),
    Case("60-scan-markers-behind.jpg", "OK", lambda: _jpeg() + b"\xff\xda" * 101),
    Case("61-random.jpg", "FORMAT", lambda: random.Random(61).randbytes(100_000)),
    Case(
        "62-lfs-pointer.jpg", "FORMAT", lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    ),
    Case("62-one-byte.jpg", "TRUNCATED", lambda: b"\xff"),
    Case("62-empty.jpg", "EMPTY", lambda: b""),
    Case("63-cut-in-header.jpg", "TRUNCATED", lambda: _jpeg()[:100]),
    Case("64-cut-at-scan.jpg", "TRUNCATED", lambda: _jpeg()[: m.at_marker(_jpeg(), 0xDA) + 2]),
    Case("65-cut-in-scan.jpg", "TRUNCATED", lambda: _cut(_jpeg(), 0.8)),
    Case("65-cut-in-scan-progressive.jpg", "TRUNCATED", lambda: _cut(_jpeg(progressive=True), 0.6)),
    Case("66-without-end.jpg", "TRUNCATED", lambda: _jpeg()[:-2]),
    Case("67-cut-in-pixels.png", "TRUNCATED", lambda: _cut(_png(), 0.7)),
    Case("68-without-end.png", "OK", lambda: _png()[:-12]),
    Case("69-bad-crc.png", "CORRUPT", _bad_crc),
    Case("69-bad-pixels.png", "CORRUPT", lambda: m.patched(_png(), 60, b"\xff" * 40)),
    Case("70-without-header.png", "CORRUPT", lambda: m.png(m.rows([b"\0" * 8]), m.END)),
    Case("71-cut.gif", "TRUNCATED", lambda: _cut(m.saved(m.photo(), "GIF"), 0.9)),
    Case("72-cut.webp", "TRUNCATED", lambda: _cut(_webp(), 0.5)),
    Case("72-without-end.webp", "TRUNCATED", lambda: _webp()[:-1]),
    Case("72-damaged-chunk.webp", "CORRUPT", lambda: m.patched(_webp(), 16, b"\xff" * 4)),
    Case("72-damaged.webp", "CORRUPT", lambda: m.patched(_webp(), 30, b"\xff" * 60)),
    Case("73-cut.bmp", "TRUNCATED", lambda: _cut(_bmp(), 0.5)),
    Case("73-cut-in-header.bmp", "TRUNCATED", lambda: _bmp()[:15]),
    Case("73-bad-header.bmp", "FORMAT", lambda: m.patched(_bmp(), 14, b"\x99")),
    Case("73-bad-compression.bmp", "FORMAT", lambda: m.bmp(8, 8, 24, 9, b"", bytes(192))),
    Case("73-bad-depth.bmp", "FORMAT", lambda: m.bmp(8, 8, 7, 0, b"", bytes(192))),
    Case("74-bad-comment-length.jpg", "TRUNCATED", lambda: m.with_segments(_jpeg(), b"\xff\xfe\xff\xff")),
    Case("74-frame-behind-scan.jpg", "CORRUPT", _swapped),
    Case("76-zeroed-middle.jpg", "CORRUPT", _zeroed_middle),
    Case("76-half-with-an-end.jpg", "CORRUPT", lambda: _cut(_jpeg(), 0.8) + m.END_OF_JPEG),
    Case(
        "76-third-of-progressive-with-an-end.jpg", "CORRUPT", lambda: _cut(_jpeg(progressive=True), 0.3) + m.END_OF_JPEG
    ),
    Case("76-lost-middle.jpg", "CORRUPT", lambda: _cut(_jpeg(), 0.8) + _jpeg()[-50:]),
    Case("76-cmyk-half-with-an-end.jpg", "CORRUPT", lambda: _cut(_jpeg("CMYK"), 0.5) + m.END_OF_JPEG),
    Case("76-bytes-before-the-end.jpg", "CORRUPT", lambda: _jpeg()[:-2] + bytes(9) + m.END_OF_JPEG),
    Case("76-unknown-jfif.jpg", "OK", lambda: m.patched(_jpeg(), 11, b"\x03"), ("jpeg_warning",)),
    Case("76-odd-range-of-coefficients.jpg", "OK", lambda: m.odd_scan(_jpeg()), ("jpeg_warning",)),
    Case("76-rare-sampling.jpg", "OK", m.with_rare_sampling, ("jpeg_unchecked",)),
    Case("76-unknown-jfif-and-half.jpg", "CORRUPT", lambda: m.patched(_cut(_jpeg(), 0.8) + m.END_OF_JPEG, 11, b"\x03")),
    Case("77-zeros.png", "PIXELS", lambda: _zeros_png(65500, 65500)),
    Case("78-huge-screen.gif", "PIXELS", lambda: m.gif((65535, 65535), [((0, 0, 1, 1), 0)])),
    Case("78-huge.bmp", "PIXELS", lambda: m.bmp(60000, 60000, 24, 0, b"", bytes(16))),
    Case("79-huge.jpg", "PIXELS", lambda: _jpeg_size(65535, 65535)),
    Case("79-no-width.jpg", "CORRUPT", lambda: _jpeg_size(0, 64)),
    Case("80-thousand-scans.jpg", "CORRUPT", lambda: m.many_scans(1000)),
    Case("80-hundred-and-one-scans.jpg", "CORRUPT", lambda: m.many_scans(101)),
    Case("80-hundred-scans.jpg", "CORRUPT", lambda: m.many_scans(100)),
    Case("81-text-bomb.png", "CORRUPT", lambda: m.with_chunks(_png(), m.chunk(b"zTXt", b"a\0\0" + _bomb()))),
    Case("81-profile-bomb.png", "CORRUPT", lambda: m.with_chunks(_png(), m.chunk(b"iCCP", b"a\0\0" + _bomb()))),
    Case("82-one-pixel.png", "OK", lambda: m.saved(Image.new("RGB", (1, 1), (9, 8, 7)), "PNG")),
    Case("83-tall.png", "ASPECT", lambda: _long(1, 65000)),
    Case("84-wide.png", "ASPECT", lambda: _long(65000, 1)),
    Case("84-wide-but-allowed.png", "OK", lambda: _long(500, 5), ("gray_to_rgb",)),
    Case("86-just-over.png", "PIXELS", lambda: _zeros_png(8192, 8193)),
    Case(
        "87-many-frames.gif",
        "OK",
        lambda: m.gif((4, 4), [((0, 0, 1, 1), 0)] * 20_000),
        ("first_frame", "palette_expanded"),
    ),
    Case("89-cmyk.jpg", "OK", lambda: _jpeg("CMYK"), ("cmyk_to_rgb",)),
    Case("90-ycck.jpg", "OK", lambda: m.flat_ycck(100, 255), ("cmyk_to_rgb",)),
    Case("90-cmyk-not-adobe.jpg", "OK", lambda: m.without_adobe(_jpeg("CMYK")), ("cmyk_to_rgb",)),
    Case("91-gray.jpg", "OK", lambda: _jpeg("L"), ("gray_to_rgb",)),
    Case("92-gray-16.png", "OK", lambda: m.gray16_png([[32768] * 8] * 8), ("sixteen_bit_scaled", "gray_to_rgb")),
    Case(
        "92-gray-16-transparent.png",
        "OK",
        lambda: m.gray16_png([[32768] * 4 + [500] * 4] * 8, m.chunk(b"tRNS", struct.pack(">H", 500))),
        ("sixteen_bit_scaled", "alpha_composited", "gray_to_rgb"),
    ),
    Case("93-rgb-16.png", "OK", lambda: m.rgb16_png((8, 8), (65535, 32768, 0)), ("sixteen_bit_scaled",)),
    Case(
        "93-rgb-16-transparent.png",
        "OK",
        lambda: m.rgb16_png((8, 8), (500, 32768, 0), m.chunk(b"tRNS", struct.pack(">3H", 500, 32768, 0))),
        ("sixteen_bit_scaled", "alpha_composited"),
    ),
    Case("94-one-bit.png", "OK", lambda: _png("1"), ("gray_to_rgb",)),
    Case(
        "94-two-bit-transparent.png",
        "OK",
        lambda: m.png(m.header(8, 8, 2, 0), m.chunk(b"tRNS", b"\0\3"), m.rows([b"\x00\xff"] * 8), m.END),
        ("alpha_composited", "gray_to_rgb"),
    ),
    Case(
        "94-four-bit-transparent.png",
        "OK",
        lambda: m.png(m.header(8, 8, 4, 0), m.chunk(b"tRNS", b"\0\2"), m.rows([b"\x22\x22\x55\x55"] * 8), m.END),
        ("alpha_composited", "gray_to_rgb"),
    ),
    Case("95-palette.png", "OK", lambda: _png("P"), ("palette_expanded",)),
    Case(
        "95-palette-transparent.png",
        "OK",
        lambda: _png("P", transparency=m.photo(mode="P").getpixel((0, 0))),
        ("palette_expanded", "alpha_composited"),
    ),
    Case("95-rgb-transparent.png", "OK", lambda: _png(transparency=(0, 0, 0)), ("alpha_composited",)),
    Case("96-la.png", "OK", lambda: m.saved(_clear("LA"), "PNG"), ("alpha_composited", "gray_to_rgb")),
    Case("96-rgba.png", "OK", lambda: m.saved(_clear("RGBA"), "PNG"), ("alpha_composited",)),
    Case("96-rgba-opaque.png", "OK", lambda: _png("RGBA")),
    Case(
        "96-rgba-nearly-opaque.png",
        "OK",
        lambda: m.saved(Image.new("RGBA", (8, 8), (90, 80, 70, 254)), "PNG"),
        ("alpha_composited",),
    ),
    Case("96-rgba.webp", "OK", lambda: m.saved(_clear("RGBA"), "WEBP", lossless=True), ("alpha_composited",)),
    Case("97-animated.gif", "OK", lambda: _frames("GIF"), ("first_frame", "palette_expanded")),
    Case("98-animated.webp", "OK", lambda: _frames("WEBP"), ("first_frame",)),
    Case("99-animated.png", "OK", lambda: _frames("PNG"), ("first_frame",)),
    Case("100-mpo.jpg", "OK", lambda: _frames("MPO")),
    Case("100-ultra-hdr.jpg", "OK", m.ultra_hdr),
    Case("101-adobe-rgb.jpg", "OK", lambda: _jpeg(icc_profile=m.wide_profile()), ("icc_to_srgb",)),
    Case("101-adobe-rgb.png", "OK", lambda: _png(icc_profile=m.wide_profile()), ("icc_to_srgb",)),
    Case("101-cmyk-profile.jpg", "OK", lambda: _jpeg("CMYK", icc_profile=m.ink_profile()), ("cmyk_to_rgb",)),
    Case("101-gray-profile.jpg", "OK", lambda: _jpeg("L", icc_profile=m.gray_profile(1.0)), ("icc_to_srgb",)),
    Case("101-near-srgb-2.png", "OK", lambda: _png(icc_profile=m.near_srgb_profile(2))),
    Case("101-near-srgb-3.png", "OK", lambda: _png(icc_profile=m.near_srgb_profile(3)), ("icc_to_srgb",)),
    Case("101-dim-white.png", "OK", lambda: _png(icc_profile=m.near_srgb_profile(0, white=240)), ("icc_to_srgb",)),
    Case("101-faded-profile.png", "OK", lambda: _png(icc_profile=m.faded_profile()), ("icc_to_srgb",)),
    Case("102-broken-profile.jpg", "OK", lambda: _jpeg(icc_profile=b"not a profile" * 20), ("icc_broken",)),
    Case("102-gray-profile-on-rgb.jpg", "OK", lambda: _jpeg(icc_profile=m.gray_profile(1.0)), ("icc_broken",)),
    Case("103-exif-1.jpg", "OK", lambda: _jpeg(exif=m.exif(1))),
    Case("103-exif-6.jpg", "OK", lambda: _jpeg(exif=m.exif(6)), ("exif_orientation",)),
    Case("103-exif-little-endian.jpg", "OK", lambda: _jpeg(exif=m.exif(6, "<")), ("exif_orientation",)),
    Case("104-exif.webp", "OK", lambda: m.saved(m.photo(), "WEBP", exif=m.exif(6)), ("exif_orientation",)),
    Case("104-exif.png", "OK", lambda: _png(exif=m.exif(6)), ("exif_orientation",)),
    Case("104-xmp.jpg", "OK", lambda: _jpeg(xmp=m.xmp(6)), ("exif_orientation",)),
    Case("105-exif-cut.jpg", "OK", lambda: _jpeg(exif=m.exif(6)[:20])),
    Case("105-exif-nonsense.jpg", "OK", lambda: _jpeg(exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(40))),
    Case("105-exif-orientation-9.jpg", "OK", lambda: _jpeg(exif=m.exif(9))),
    Case("106-twelve-bit.jpg", "FORMAT", lambda: m.patched(_jpeg(), m.at_marker(_jpeg(), 0xC0) + 4, b"\x0c")),
    Case("106-lossless-marker.jpg", "FORMAT", lambda: _frame_marker(0xC3)),
    Case("106-arithmetic-marker.jpg", "CORRUPT", lambda: _frame_marker(0xC9)),
    Case("106-two-components.jpg", "FORMAT", lambda: m.patched(_jpeg(), m.at_marker(_jpeg(), 0xC0) + 9, b"\x02")),
    Case("107-interlaced.png", "OK", lambda: m.interlaced_png(m.photo((20, 13)))),
    Case("108-progressive.jpg", "OK", lambda: _jpeg(progressive=True)),
    Case("109-subsampling-422-odd.jpg", "OK", lambda: m.saved(m.photo((97, 65)), "JPEG", subsampling=1)),
    Case("109-restart-markers.jpg", "OK", lambda: _jpeg(restart_marker_blocks=1)),
    Case("109-top-down.bmp", "OK", lambda: m.bmp(8, -8, 24, 0, b"", bytes(192))),
    Case(
        "109-rle8.bmp",
        "OK",
        lambda: m.bmp(8, 2, 8, 1, b"\0\0\xff\0\xff\0\0\0", b"\x08\x01\0\0\x08\x00\0\0\0\1"),
        ("palette_expanded",),
    ),
    Case("109-os2.bmp", "OK", lambda: m.os2_bmp(8, 8, bytes(192))),
    Case("109-scaled.webp", "OK", _scaled_webp),
    Case("109-sixteen-bit.bmp", "OK", lambda: m.bmp(8, 8, 16, 0, b"", bytes(128))),
    Case("110-tiff.jpg", "FORMAT", lambda: m.saved(m.photo(), "TIFF")),
    Case("110-jp2.jpg", "FORMAT", lambda: m.saved(m.photo(), "JPEG2000")),
    Case("110-heic.jpg", "CORRUPT", lambda: struct.pack(">I", 24) + b"ftypheic" + bytes(12)),
    Case("110-avif.jpg", "CORRUPT", lambda: struct.pack(">I", 24) + b"ftypavif" + bytes(12)),
    Case("110-tiles-turned.heic", "OK", _file("tiles-turned.heic"), ("exif_orientation",)),
    Case("110-hdr.avif", "OK", _file("hdr.avif"), ("sixteen_bit_scaled", "hdr_as_sdr")),
    Case("110-frames.avif", "OK", lambda: _frames("AVIF"), ("first_frame",)),
    Case("110-jxl.jpg", "FORMAT", lambda: struct.pack(">I", 12) + b"JXL \r\n\x87\n"),
    Case("110-ico.jpg", "FORMAT", lambda: m.saved(m.photo(), "ICO")),
    Case("110-ppm.jpg", "FORMAT", lambda: m.saved(m.photo(), "PPM")),
    Case("110-psd.jpg", "FORMAT", lambda: b"8BPS\0\1" + bytes(40)),
    Case("120-two-headers.png", "CORRUPT", _two_headers),
    Case(
        "121-apng-disposal-bomb.png",
        "PIXELS",
        lambda: m.with_chunks(_zeros_png(65500, 65500), m.animation_control(65500, 65500, 1)),
    ),
    Case("122-frame-beyond-screen.gif", "PIXELS", lambda: m.gif((4, 4), [((0, 0, 65535, 65535), 2)])),
    Case("123-webp-canvas-bomb.webp", "PIXELS", lambda: m.webp_canvas(16384, 16384)),
    Case("123-webp-wide-canvas.webp", "PIXELS", lambda: m.webp_canvas(66336, 66336)),
    Case("124-text-named-transparency.png", "OK", lambda: _text(b"transparency", b"x")),
    Case("124-palette-and-text-named-transparency.png", "OK", _palette_text, ("palette_expanded",)),
    Case("124-short-profile-behind-pixels.png", "CORRUPT", lambda: _png()[:-12] + m.chunk(b"iCCP", b"a\0") + m.END),
    Case("124-text-named-icc-profile.png", "OK", lambda: _text(b"icc_profile", b"x"), ("icc_broken",)),
    Case("124-text-named-exif.png", "OK", lambda: _text(b"exif", b"x")),
    Case("124-text-named-xmp.png", "OK", lambda: _text(b"xmp", b"x")),
    Case("124-text-named-bbox.png", "CORRUPT", lambda: _text(b"bbox", b"x")),
    Case("124-text-named-interlace.png", "CORRUPT", lambda: _text(b"interlace", b"x")),
    Case("124-text-named-default-image.png", "OK", lambda: _text(b"default_image", b"x")),
    Case("124-text-named-disposal.png", "OK", lambda: _text(b"disposal", b"x")),
    Case("125-no-frame.gif", "CORRUPT", lambda: m.gif((4, 4), [])),
    Case(
        "125-little-junk.gif",
        "OK",
        lambda: m.gif((4, 4), [])[:-1] + bytes(60_000) + m.gif((4, 4), [((0, 0, 1, 1), 0)])[19:],
        ("palette_expanded",),
    ),
    Case("125-junk.gif", "CORRUPT", lambda: m.gif((4, 4), [])[:-1] + bytes(1 << 20)),
    Case("126-no-pixels.png", "CORRUPT", lambda: m.png(m.header(8, 8, 8, 2), m.END)),
)
