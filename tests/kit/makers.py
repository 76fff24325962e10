"""Bytes of odd images that Pillow cannot write: chunk by chunk, segment by segment."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (96, 64)  # width, height of most pictures here: small, not square, and not a multiple of 16 both ways


def photo(size: tuple[int, int] = SIZE, mode: str = "RGB") -> Image.Image:
    """Smooth colours with a dark corner at the top left, so that turns and mirrors show."""
    width, height = size
    image = Image.merge(
        "RGB",
        (
            Image.linear_gradient("L").resize(size),
            Image.linear_gradient("L").rotate(90).resize(size),
            Image.radial_gradient("L").resize(size),
        ),
    )
    image.paste((0, 0, 0), (0, 0, max(1, width // 4), max(1, height // 4)))
    return image.convert(mode)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


# --- PNG


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def header(width: int, height: int, bits: int, colour: int, interlaced: bool = False) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def rows(lines: Iterable[bytes]) -> bytes:
    """IDAT of unfiltered lines."""
    return chunk(b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines)))


END = chunk(b"IEND", b"")


def gray16_png(values: list[list[int]], *extra: bytes) -> bytes:
    lines = [struct.pack(f">{len(row)}H", *row) for row in values]
    return png(header(len(values[0]), len(values), 16, 0), *extra, rows(lines), END)


def rgb16_png(size: tuple[int, int], colour: tuple[int, int, int], *extra: bytes) -> bytes:
    line = struct.pack(">3H", *colour) * size[0]
    return png(header(*size, 16, 2), *extra, rows([line] * size[1]), END)


def interlaced_png(image: Image.Image) -> bytes:
    """Adam7: seven small pictures, one after another."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    width, height = image.size
    pixels = image.tobytes()
    lines = []
    for left, top, across, down in passes:
        for y in range(top, height, down):
            line = b"".join(pixels[3 * (y * width + x) :][:3] for x in range(left, width, across))
            if line:
                lines.append(line)
    return png(header(width, height, 8, 2, interlaced=True), rows(lines), END)


def with_chunks(data: bytes, *chunks: bytes) -> bytes:
    """Chunks put right behind the header of a PNG."""
    return data[:33] + b"".join(chunks) + data[33:]


def animation_control(width: int, height: int, disposal: int) -> bytes:
    frame = struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 10, disposal, 0)
    return chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(b"fcTL", frame)


# --- JPEG


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def with_segments(data: bytes, *segments: bytes) -> bytes:
    """Segments put right behind the start of a JPEG."""
    return data[:2] + b"".join(segments) + data[2:]


def at_marker(data: bytes, marker: int) -> int:
    """Position of a segment of a JPEG, found by walking."""
    position = 2
    while data[position + 1] != marker:
        position += 2 + int(struct.unpack_from(">H", data, position + 2)[0])
    return position


def patched(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


END_OF_JPEG = b"\xff\xd9"


def odd_scan(data: bytes) -> bytes:
    """A baseline JPEG whose scan claims to end with the first coefficient, as from some cameras."""
    start = at_marker(data, 0xDA)
    length = int(struct.unpack_from(">H", data, start + 2)[0])
    return patched(data, start + length, b"\x00")


def without_huffman_table(data: bytes, which: int) -> bytes:
    """A JPEG whose Huffman table of that number is zeros; there are four, or two if it is gray."""
    start = -1
    for _ in range(which + 1):
        start = data.index(b"\xff\xc4", start + 1)
    return patched(data, start, bytes(2 + int(struct.unpack_from(">H", data, start + 2)[0])))


def with_adobe(data: bytes, transform: int) -> bytes:
    """A JPEG whose only APP segment in front is Adobe's, with that colour transform."""
    start = 2
    while data[start + 1] in (0xE0, 0xEE):
        start += 2 + int(struct.unpack_from(">H", data, start + 2)[0])
    return data[:2] + b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0" + bytes([transform]) + data[start:]


def with_rare_sampling() -> bytes:
    """``photo()`` with three pixels of luma per pixel of chroma, made by ``cjpeg -sample 3x1``."""
    return Path(__file__).with_name("rare-sampling.jpg").read_bytes()


def with_a_scan_per_component(size: tuple[int, int] = SIZE) -> bytes:
    """A baseline JPEG, gray stored as RGB, in three scans."""
    gray = saved(photo(size, "L"), "JPEG")
    frame, scan = at_marker(gray, 0xC0), at_marker(gray, 0xDA)
    components = [bytes([name]) for name in b"RGB"]
    header = gray[frame + 4 : frame + 9] + b"\3" + b"".join(name + b"\x11\0" for name in components)
    scans = (b"\xff\xda\0\x08\1" + name + b"\0\0\x3f\0" + gray[scan + 10 : -2] for name in components)
    return b"".join(
        [b"\xff\xd8", gray[20:frame], b"\xff\xc0\0\x11", header, gray[frame + 13 : scan], *scans, END_OF_JPEG]
    )


def many_scans(count: int) -> bytes:
    """A progressive JPEG of ``count`` scans: the last one is repeated, of which libjpeg warns."""
    data = saved(photo(), "JPEG", progressive=True)
    scan = b"\xff\xda"
    last = data.rindex(scan)
    return data[:last] + data[last:-2] * (count + 1 - data.count(scan)) + data[-2:]


def flat_ycck(luma: int, black: int, size: tuple[int, int] = (32, 32)) -> bytes:
    """A gray YCCK JPEG as Adobe writes it (inverted): inks ``luma``, no chroma, K = ``black``."""
    inks = (255 - luma, 127, 127, 255 - black)  # Pillow inverts on writing; 127 becomes the neutral 128
    data = saved(Image.new("CMYK", size, inks), "JPEG", quality=100)
    adobe = at_marker(data, 0xEE)
    return patched(data, adobe + 4 + 11, b"\x02")


def without_adobe(data: bytes) -> bytes:
    start = at_marker(data, 0xEE)
    return data[:start] + data[start + 16 :]


# --- EXIF


def exif(orientation: int, order: str = ">", kind: int = 3) -> bytes:
    """A TIFF block with an orientation and a GPS pointer, ``Exif`` prefix included."""
    value = struct.pack(order + "HH", orientation, 0) if kind == 3 else struct.pack(order + "I", orientation)
    entry = struct.pack(order + "HHI", 0x0112, kind, 1) + value
    gps = struct.pack(order + "HHII", 0x8825, 4, 1, 38)
    body = struct.pack(order + "H", 2) + entry + gps + bytes(4)
    return b"Exif\0\0" + (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "I", 8) + body + bytes(6)


def xmp(orientation: int) -> bytes:
    return b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>' % orientation


# --- ICC (version 2, just what a colour engine needs)


def icc(space: bytes, pcs: bytes, tags: dict[bytes, bytes]) -> bytes:
    body, table = b"", b""
    start = 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        table += name + struct.pack(">II", start + len(body), len(value))
        body += value + bytes(-len(value) % 4)
    kind = b"prtr" if space == b"CMYK" else b"mntr"
    head = struct.pack(">I4sI4s4s4s", start + len(body), b"none", 0x02400000, kind, space, pcs)
    head += struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp") + bytes(28)
    head += struct.pack(">3i", 63190, 65536, 54061) + bytes(48)  # illuminant D50
    return head + struct.pack(">I", len(tags)) + table + body


def _xyz(*values: float) -> bytes:
    return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(value * 65536) for value in values))


def _gamma(value: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


WHITE = _xyz(0.9642, 1.0, 0.8249)


def wide_profile() -> bytes:
    """Adobe RGB (1998): primaries adapted to D50, gamma 2.2."""
    gamma = _gamma(563 / 256)
    return icc(
        b"RGB ",
        b"XYZ ",
        {
            b"wtpt": WHITE,
            b"rXYZ": _xyz(0.60974, 0.31111, 0.01947),
            b"gXYZ": _xyz(0.20528, 0.62567, 0.06087),
            b"bXYZ": _xyz(0.14919, 0.06322, 0.74457),
            b"rTRC": gamma,
            b"gTRC": gamma,
            b"bTRC": gamma,
        },
    )


def gray_profile(gamma: float) -> bytes:
    return icc(b"GRAY", b"XYZ ", {b"wtpt": WHITE, b"kTRC": _gamma(gamma)})


def near_srgb_profile(levels: int, white: int = 255) -> bytes:
    """sRGB whose middle is ``levels`` (of 255) brighter; what is above ``white`` is ``white``."""
    brighter = [min(x + levels * 4 * x / 255 * (1 - x / 255), white) / 255 for x in range(256)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in brighter]
    curve = b"curv\0\0\0\0" + struct.pack(">I256H", 256, *(round(v * 65535) for v in linear))
    return icc(
        b"RGB ",
        b"XYZ ",
        {
            b"wtpt": WHITE,
            b"rXYZ": _xyz(0.43607, 0.22249, 0.01392),
            b"gXYZ": _xyz(0.38515, 0.71687, 0.09708),
            b"bXYZ": _xyz(0.14307, 0.06061, 0.71410),
            b"rTRC": curve,
            b"gTRC": curve,
            b"bTRC": curve,
        },
    )


def faded_profile() -> bytes:
    """RGB of a faded print, as tables: perceptual black is Lab L 40, colorimetric black L 20."""
    tables = {
        name: _table(3, [(black + (255 - black) * index.bit_count() // 3, 128, 128) for index in range(8)])
        for name, black in ((b"A2B0", 102), (b"A2B1", 51))
    }
    return icc(b"RGB ", b"Lab ", {b"wtpt": WHITE, **tables})


def ink_profile(lab_of_full_ink: tuple[int, int, int] = (0, 128, 128)) -> bytes:
    """CMYK in which every full ink alone gives one colour, which no naive conversion would give."""
    table = _table(4, [(255, 128, 128), *[lab_of_full_ink] * 15])
    return icc(b"CMYK", b"Lab ", {b"wtpt": WHITE, b"A2B0": table})


def _table(channels: int, corners: Iterable[tuple[int, int, int]]) -> bytes:
    """Lab, a byte each, of every corner of the cube of ``channels``; the last varies fastest."""
    identity = bytes(range(256))
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    grid = b"".join(map(bytes, corners))
    return b"mft1\0\0\0\0" + bytes((channels, 3, 2, 0)) + matrix + identity * channels + grid + identity * 3


# --- GIF, BMP, WebP


def gif(screen: tuple[int, int], frames: Iterable[tuple[tuple[int, int, int, int], int]]) -> bytes:
    """Two-colour GIF; a frame is ((left, top, width, height), disposal) with one pixel of data."""
    parts = [b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"]
    for box, disposal in frames:
        parts.append(b"\x21\xf9\x04" + struct.pack("<BHBB", disposal << 2, 1, 0, 0))
        parts.append(b"\x2c" + struct.pack("<HHHHB", *box, 0) + b"\x02\x02\x4c\x01\x00")
    return b"".join(parts) + b"\x3b"


def bmp(width: int, height: int, bits: int, compression: int, palette: bytes, pixels: bytes) -> bytes:
    start = 54 + len(palette)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(pixels), 0, 0, len(palette) // 4, 0)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + info + palette + pixels


def os2_bmp(width: int, height: int, pixels: bytes) -> bytes:
    """24 bits a pixel behind a header of 12 bytes."""
    return (
        b"BM"
        + struct.pack("<IHHI", 26 + len(pixels), 0, 0, 26)
        + struct.pack("<IHHHH", 12, width, height, 1, 24)
        + pixels
    )


def webp_canvas(width: int, height: int) -> bytes:
    """A WebP header that announces a canvas, with nothing on it."""
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    body = b"WEBPVP8X" + struct.pack("<II", 10, 2) + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


def ultra_hdr() -> bytes:
    """A JPEG as Android writes it: behind the picture lies its gain map, a second JPEG; XMP names it."""
    gain_map = saved(photo((24, 16), "L"), "JPEG")
    xmp = (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0" '
        'xmlns:Container="http://ns.google.com/photos/1.0/container/" xmlns:Item="http://ns.google.com/photos/1.0/container/item/">'
        '<Container:Directory><rdf:Seq><rdf:li><Container:Item Item:Semantic="Primary" Item:Mime="image/jpeg"/></rdf:li><rdf:li>'
        f'<Container:Item Item:Semantic="GainMap" Item:Mime="image/jpeg" Item:Length="{len(gain_map)}"/></rdf:li></rdf:Seq>'
        "</Container:Directory></rdf:Description></rdf:RDF></x:xmpmeta>"
    ).encode()
    return saved(photo(), "JPEG", xmp=xmp) + gain_map
