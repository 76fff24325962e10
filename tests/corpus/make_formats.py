"""Makes ``tests/corpus/formats/``: small files of formats that Pillow cannot write, and what they show.

Beside each file lies a PNG with the pixels that another decoder reads: heif-convert (HEIC), avifdec,
djxl, ImageMagick (TIFF). Where a colour profile or code has to be applied, littleCMS has applied it
to that decoder's pixels. So the tests need none of these programs. To make all of them again, on
Debian (bookworm), in an environment that has shardfeed (pillow-heif is no dependency of it: its
encoder is under the GPL):

    apt-get install libheif-examples libavif-bin libjxl-tools imagemagick
    pip install pillow-heif
    python -m tests.corpus.make_formats
"""

from __future__ import annotations

import io
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pillow_heif
from PIL import Image, ImageCms

from shardfeed.transforms.images.formats.coded_colours import P3 as P3_GAMUT
from shardfeed.transforms.images.formats.coded_colours import profile_with
from tests.kit import makers as m

OUT = Path(__file__).parent / "formats"
P3 = profile_with(P3_GAMUT)
# With a curve of its own: no codes of JPEG XL stand for it.
ODD = P3.replace(struct.pack(">i", round(2.4 * 65536)), struct.pack(">i", round(1.7 * 65536)))
SIDE = 64  # of a tile
ORIENTATION_6 = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"


def main() -> None:
    """Makes all files."""
    OUT.mkdir(exist_ok=True)
    pillow_heif.register_heif_opener()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        _heic(work)
        _avif(work)
        _jxl(work)
        _tiff(work)


# --- HEIC


def _heic(work: Path) -> None:
    photo = m.photo()
    photo.save(OUT / "plain.heic", quality=90)
    m.photo(mode="L").save(OUT / "gray.heic", quality=90)
    _clear().save(OUT / "alpha.heic", quality=90)
    photo.save(OUT / "p3-profile.heic", quality=90, icc_profile=P3)
    nclx: dict[str, Any] = {
        "color_primaries": 12,
        "transfer_characteristics": 13,
        "matrix_coefficients": 1,
        "full_range_flag": 1,
    }
    photo.save(OUT / "p3-codes.heic", quality=90, save_nclx_profile=True, **nclx)
    pillow_heif.from_bytes("RGB;16", photo.size, _sixteen(photo)).save(OUT / "ten-bit.heic", quality=90)
    two = pillow_heif.from_pillow(photo.rotate(180))
    two.add_from_pillow(photo)
    two.save(OUT / "second-is-main.heic", quality=90, primary_index=1)
    big = m.photo((150, 100))
    # As iPhones write: tiles, a turn, and the same turn in the EXIF.
    (OUT / "tiles-turned.heic").write_bytes(_tiled(big, turn=3, exif=ORIENTATION_6))
    # By the standard (ISO/IEC 23008-12, A.2.1) the EXIF orientation alone turns nothing.
    (OUT / "tiles-exif-alone.heic").write_bytes(_tiled(big, turn=0, exif=ORIENTATION_6))
    for path in sorted(OUT.glob("*.heic")):
        shown = work / "shown.png"
        _run("heif-convert", path, shown)
        picture = _opened(shown)
        if path.name.startswith("p3"):
            picture = _to_srgb(picture, P3)
        _keep(path, picture)


def _tiled(image: Image.Image, turn: int, exif: bytes) -> bytes:
    """A HEIC of tiles of 64 x 64; ``turn``: quarter turns against the clock."""
    columns, rows = -(-image.width // SIDE), -(-image.height // SIDE)
    whole = Image.new("RGB", (columns * SIDE, rows * SIDE))
    whole.paste(image)
    tiles = [
        _coded(whole.crop((x, y, x + SIDE, y + SIDE)))
        for y in range(0, whole.height, SIDE)
        for x in range(0, whole.width, SIDE)
    ]
    (configuration,) = {configuration for configuration, _ in tiles}
    count = len(tiles)
    grid, exif_item = count + 1, count + 2
    items = [_full(b"infe", 2, struct.pack(">HH4s", n + 1, 0, b"hvc1") + b"\0", flags=1) for n in range(count)]
    items.append(_full(b"infe", 2, struct.pack(">HH4s", grid, 0, b"grid") + b"\0"))
    items.append(_full(b"infe", 2, struct.pack(">HH4s", exif_item, 0, b"Exif") + b"\0", flags=1))
    references = _box(b"dimg", struct.pack(f">HH{count}H", grid, count, *range(1, count + 1)))
    references += _box(b"cdsc", struct.pack(">HHH", exif_item, 1, grid))
    properties = [
        _box(b"hvcC", configuration),
        _full(b"ispe", 0, struct.pack(">II", SIDE, SIDE)),
        _full(b"ispe", 0, struct.pack(">II", *image.size)),
        _box(b"irot", bytes([turn])),
        _full(b"pixi", 0, b"\x03\x08\x08\x08"),
    ]
    uses = b"".join(struct.pack(">HBBB", n + 1, 2, 0x81, 2) for n in range(count))
    uses += struct.pack(">HBBBB", grid, 3, 3, 5, 0x84)
    associations = _full(b"ipma", 0, struct.pack(">I", count + 1) + uses)
    described = _box(b"idat", struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, *image.size))
    pieces = [data for _, data in tiles] + [struct.pack(">I", 6) + exif]

    def meta(start: int) -> bytes:
        places = b""
        for number, piece in enumerate(pieces):
            item = number + 1 if number < count else exif_item
            places += struct.pack(">HHHHII", item, 0, 0, 1, start, len(piece))
            start += len(piece)
        places += struct.pack(">HHHHII", grid, 1, 0, 1, 0, len(described) - 8)
        location = _full(b"iloc", 1, bytes([0x44, 0]) + struct.pack(">H", count + 2) + places)
        return _full(
            b"meta",
            0,
            _full(b"hdlr", 0, bytes(4) + b"pict" + bytes(13))
            + _full(b"pitm", 0, struct.pack(">H", grid))
            + location
            + _full(b"iinf", 0, struct.pack(">H", len(items)) + b"".join(items))
            + _full(b"iref", 0, references)
            + _box(b"iprp", _box(b"ipco", b"".join(properties)) + associations)
            + described,
        )

    head = _box(b"ftyp", b"heic" + bytes(4) + b"mif1heic")
    return head + meta(len(head) + len(meta(0)) + 8) + _box(b"mdat", b"".join(pieces))


def _coded(tile: Image.Image) -> tuple[bytes, bytes]:
    """(decoder configuration, coded data) of a picture."""
    buffer = io.BytesIO()
    tile.save(buffer, "HEIF", quality=90)
    data = buffer.getvalue()
    at = data.index(b"hvcC")
    configuration = data[at + 4 : at - 4 + int.from_bytes(data[at - 4 : at], "big")]
    return configuration, data[data.rindex(b"mdat") + 4 :]


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + name + content


def _full(name: bytes, version: int, content: bytes, flags: int = 0) -> bytes:
    return _box(name, struct.pack(">I", version << 24 | flags) + content)


# --- AVIF, JPEG XL, TIFF


def _avif(work: Path) -> None:
    m.photo().save(work / "photo.png")
    _clear().save(work / "alpha.png")
    (work / "photo-16.png").write_bytes(_png_16(m.photo()))
    codes = ("--cicp", "12/13/1")
    for name, source, *options in (
        ("plain", "photo.png"),
        ("turned", "photo.png", "--irot", "3"),
        ("mirrored", "photo.png", "--imir", "1"),
        ("alpha", "alpha.png"),
        ("ten-bit", "photo-16.png", "-d", "10"),
        ("full-colour", "photo.png", "-y", "444"),
        ("p3-codes", "photo.png", *codes),
        ("hdr", "photo-16.png", "-d", "10", "--cicp", "9/16/9"),
    ):
        path = OUT / f"{name}.avif"
        _run("avifenc", "-j", "1", "--min", "10", "--max", "20", *options, work / source, path)
        _run("avifdec", path, work / "shown.png", "-d", "8")
        picture = _opened(work / "shown.png")
        # avifdec leaves turning to the viewer.
        if name == "turned":
            picture = picture.transpose(Image.Transpose.ROTATE_270)
        elif name == "mirrored":
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        elif name == "p3-codes":
            picture = _to_srgb(picture, P3)
        _keep(path, picture)


def _jxl(work: Path) -> None:
    m.photo().save(work / "photo.jpg", quality=90)
    m.photo().save(work / "turned.jpg", quality=90, exif=ORIENTATION_6)
    m.photo().save(work / "p3.png", icc_profile=P3)
    m.photo().save(work / "odd.png", icc_profile=ODD)
    m.photo(mode="L").save(work / "gray.png")
    frames = [m.photo(), m.photo().rotate(180)]
    frames[0].save(work / "frames.gif", save_all=True, append_images=frames[1:], duration=100)
    for name, source, *options in (
        ("bare", "photo.png", "-q", "90"),
        ("container", "photo.png", "-q", "90", "--container=1"),
        ("lossless", "photo.png", "-q", "100"),
        ("from-jpeg", "photo.jpg"),
        ("from-turned-jpeg", "turned.jpg"),
        ("alpha", "alpha.png", "-q", "100"),
        ("gray", "gray.png", "-q", "100"),
        ("sixteen-bit", "photo-16.png", "-q", "100"),
        ("p3", "p3.png", "-q", "90"),
        ("p3-lossless", "p3.png", "-q", "100"),
        ("odd-profile", "odd.png", "-q", "90"),
        ("odd-profile-lossless", "odd.png", "-q", "100"),
        ("frames", "frames.gif", "-q", "100"),
    ):
        path = OUT / f"{name}.jxl"
        _run("cjxl", work / source, path, *options)
        _run("djxl", path, work / "deep.png")
        _run("convert", work / "deep.png", "-depth", "8", work / "shown.png")
        picture = _opened(work / "shown.png")
        if name.startswith(("p3", "odd")):
            picture = _to_srgb(picture, picture.info["icc_profile"])
        _keep(path, picture)


def _tiff(work: Path) -> None:
    m.photo().convert("CMYK").save(work / "inks.tif")
    m.photo().rotate(180).save(work / "second.png")
    for name, *options in (
        ("plain", "photo.png", "-compress", "None"),
        ("lzw", "photo.png", "-compress", "LZW"),
        ("deflate-predictor", "photo.png", "-compress", "Zip", "-define", "tiff:predictor=2"),
        ("packbits", "photo.png", "-compress", "RLE"),
        ("jpeg", "photo.png", "-compress", "JPEG", "-quality", "90"),
        ("tiles", "photo.png", "-compress", "None", "-define", "tiff:tile-geometry=32x32"),
        ("jpeg-tiles", "photo.png", "-compress", "JPEG", "-define", "tiff:tile-geometry=32x32"),
        ("strips", "photo.png", "-compress", "None", "-define", "tiff:rows-per-strip=7"),
        ("big", "photo.png", "-define", "tiff:endian=lsb"),
        ("msb", "photo.png", "-compress", "None", "-define", "tiff:endian=msb"),
        ("sixteen-bit", "photo-16.png", "-depth", "16", "-compress", "None"),
        ("gray-sixteen-bit", "photo-16.png", "-colorspace", "Gray", "-depth", "16"),
        ("gray", "gray.png", "-compress", "None"),
        ("palette", "photo.png", "-colors", "16", "-type", "Palette"),
        ("one-bit-fax", "gray.png", "-threshold", "50%", "-compress", "Group4"),
        ("inks", "inks.tif"),
        ("alpha", "alpha.png"),
        ("pages", "photo.png", "second.png", "-compress", "LZW"),
        ("turned", "photo.png", "-orient", "RightTop"),
    ):
        path = OUT / f"{name}.tiff"
        prefix = "TIFF64:" if name == "big" else ""
        words = [str(work / word) if word.endswith((".png", ".tif")) else word for word in options]
        _run("convert", *words, f"{prefix}{path}")
        colours = ("-colorspace", "sRGB") if name == "inks" else ()
        _run("convert", f"{path}[0]", "-auto-orient", "-depth", "8", *colours, work / "shown.png")
        _keep(path, _opened(work / "shown.png"))


# --- What is common


def _clear() -> Image.Image:
    """A picture whose right half is transparent."""
    image = m.photo()
    alpha = Image.new("L", m.SIZE, 255)
    alpha.paste(0, (48, 0, 96, 64))
    image.putalpha(alpha)
    return image


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.copy()


def _sixteen(image: Image.Image) -> bytes:
    return b"".join(struct.pack("<H", value * 257) for value in image.tobytes())


def _png_16(image: Image.Image) -> bytes:
    line = image.width * 6
    data = b"".join(struct.pack(">H", value * 257) for value in image.tobytes())
    lines = (data[start : start + line] for start in range(0, len(data), line))
    return m.png(m.header(*image.size, 16, 2), m.rows(lines), m.END)


def _to_srgb(image: Image.Image, icc: bytes) -> Image.Image:
    profile = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    intent = ImageCms.Intent.RELATIVE_COLORIMETRIC
    converted = ImageCms.profileToProfile(image.convert("RGB"), profile, ImageCms.createProfile("sRGB"), intent)
    assert converted is not None
    return converted


def _keep(path: Path, shown: Image.Image) -> None:
    """Writes what another decoder shows, on black, beside the file."""
    if "A" in shown.getbands():
        shown = Image.alpha_composite(Image.new("RGBA", shown.size, (0, 0, 0, 255)), shown.convert("RGBA"))
    shown = shown.convert("RGB")
    shown.info = {}
    shown.save(path.with_name(path.name + ".png"), optimize=True)


def _run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
