"""Formats beside the web's: what other decoders read is what we store, damage is refused, limits hold.

``tests/corpus/make_formats.py`` made the files and what other decoders read of them.
"""

from __future__ import annotations

import io
import json
import random
import struct
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardfeed.errors import UsageError
from shardfeed.transforms.images import decode
from shardfeed.transforms.images.formats import table
from shardfeed.transforms.images.formats.table import DEFAULT_FORMATS, INPUT_FORMATS, parse_formats, require_decoders
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import EncodedImage, process_image
from shardfeed.transforms.images.rejects import RejectError
from shardfeed.transforms.options import BuildOptions
from tests.kit import makers as m

FOLDER = Path(__file__).parents[2] / "corpus" / "formats"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".png")
ALL = tuple(sorted(INPUT_FORMATS))
KINDS = {"HEIC": "plain.heic", "AVIF": "plain.avif", "JXL": "bare.jxl", "TIFF": "lzw.tiff"}
FIXES = {  # and the files, without their endings, to which they are made
    "alpha_composited": {"alpha"},
    "cmyk_to_rgb": {"inks"},
    "exif_orientation": {"from-turned-jpeg", "mirrored", "tiles-turned", "turned"},
    "first_frame": {"frames", "pages", "second-is-main"},
    "gray_to_rgb": {"gray", "gray-sixteen-bit", "one-bit-fax"},
    "hdr_as_sdr": {"hdr"},
    "icc_to_srgb": {"odd-profile", "odd-profile-lossless", "p3", "p3-codes", "p3-lossless", "p3-profile"},
    "palette_expanded": {"palette"},
    "sixteen_bit_scaled": {"gray-sixteen-bit", "hdr", "sixteen-bit", "ten-bit"},
}
# Levels by which 8-bit results may differ: decoders round 10 bits and colour conversions their own way.
ROUNDED = {"hdr": 3, "ten-bit": 3, "p3": 13, "p3-codes": 4, "p3-profile": 4, "odd-profile": 13}


def stored(data: bytes, size: tuple[int, int] = m.SIZE, **options: Any) -> EncodedImage:
    """What is stored of a picture of ``size`` (width, height), which no resizing changes."""
    chosen = ImageOptions(height=size[1], width=size[0], format="raw", resize="squash", formats=ALL)
    return process_image(data, replace(chosen, **options))


def outcome(data: bytes) -> bytes | str:
    """Pixels, or the reason of the reject. A warning is an error; so is a line of a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return stored(data).data
        except RejectError as error:
            return error.reason.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_stored_is_what_another_decoder_reads(path: Path) -> None:
    with Image.open(f"{path}.png") as picture:
        theirs = np.asarray(picture.convert("RGB"), np.int16)
    height, width, _ = theirs.shape

    found = stored(path.read_bytes(), (width, height))

    ours = np.frombuffer(found.data, np.uint8).reshape(theirs.shape)
    difference = np.abs(ours - theirs)
    assert difference.max() <= ROUNDED.get(path.stem, 1)
    assert difference.mean() < 0.7
    assert set(found.fixes) == {fix for fix, names in FIXES.items() if path.stem in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_cut_anywhere_is_refused_or_whole(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = path.read_bytes()
    whole = outcome(data)

    ends = {outcome(data[:length]) for length in {*range(1, len(data), max(len(data) // 60, 1)), len(data) - 1}}

    assert ends - {whole} <= {"TRUNCATED", "CORRUPT", "FORMAT"}
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_altered_bytes_end_in_pixels_or_a_reason(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, choose = path.read_bytes(), random.Random(path.name)
    for _ in range(30):
        altered = bytearray(data)
        for _ in range(choose.randint(1, 4)):
            altered[choose.randrange(len(data))] = choose.randrange(256)
        outcome(bytes(altered))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "name", ["plain.heic", "tiles-turned.heic", "plain.avif", "bare.jxl", "from-jpeg.jxl", "jpeg.tiff", "lzw.tiff"]
)
def test_a_hole_of_zeros_in_the_coded_data_is_damage(name: str) -> None:
    """As a download leaves it that did not end: the length is right."""
    data = (FOLDER / name).read_bytes()
    hole = slice(len(data) // 2, len(data) // 2 + 40) if name.endswith("tiff") else slice(-150, -50)
    holed = bytearray(data)
    holed[hole] = bytes(hole.stop - hole.start)

    assert outcome(bytes(holed)) == "CORRUPT"


def test_a_word_that_names_metadata_wrongly_does_not_end_the_process() -> None:
    """pi-heif's own classes read such words, and crash."""
    data = bytearray((FOLDER / "tiles-exif-alone.heic").read_bytes())
    at = data.index(b"Exif")
    data[at : at + 4] = b"\xb9xif"

    assert stored(bytes(data), (150, 100)).width == 150


def test_gray_heic_whose_header_promises_more_bits_is_refused() -> None:
    data = bytearray((FOLDER / "gray.heic").read_bytes())
    data[data.index(b"hvcC") + 4 + 17] = 0xFA  # 10 bits of luma, where 8 are coded

    assert outcome(bytes(data)) in ("FORMAT", "CORRUPT")


def test_jpeg_xl_whose_primary_colours_are_none_is_refused() -> None:
    header = "ff0a0f41829033a3a28897a01c3425ef9b10800000" + "00421f4c3808c4850012880200"  # green has y = 0

    with pytest.raises(RejectError, match="CORRUPT: JXL: its primary colours are none"):
        stored(bytes.fromhex(header))


# --- Limits


@pytest.mark.parametrize(
    ("kind", "limits", "reason"),
    [
        *(
            (kind, Limits(max_pixels=96 * 64 - 1), "PIXELS: 96 x 64 = 6144 pixels; at most 6143 (--max_pixels)")
            for kind in KINDS
        ),
        (
            "HEIC",
            Limits(max_aspect=1.25),
            "ASPECT: 96 x 64; the longer side is at most 1.25 x the shorter (--max_aspect)",
        ),
        ("AVIF", Limits(min_size=65), "SMALL: 96 x 64; the shorter side has at least 65 pixels (--min_size)"),
        ("JXL", Limits(max_file_bytes=100), "TOO_LARGE: "),
    ],
    ids=[*KINDS, "aspect", "small", "bytes"],
)
def test_limits_are_checked_before_a_decoder_gets_the_file(
    kind: str, limits: Limits, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decoded(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(decode, "load_other", decoded)
    with pytest.raises(RejectError) as found:
        stored((FOLDER / KINDS[kind]).read_bytes(), limits=limits)
    assert str(found.value).startswith(reason)


def test_limits_are_inclusive_and_hold_for_jpeg_too() -> None:
    data = m.saved(m.photo(), "JPEG")
    exact = Limits(min_size=64, max_pixels=96 * 64, max_file_bytes=len(data), max_aspect=1.5)

    assert stored(data, limits=exact).width == 96
    tighter: dict[str, Any] = {"min_size": 65, "max_pixels": 96 * 64 - 1, "max_aspect": 1.49, "max_file_bytes": 1}
    for name, less in tighter.items():
        with pytest.raises(RejectError, match=f"--{name}"):
            stored(data, limits=replace(exact, **{name: less}))


# --- TIFF


def _tiff(mode: str = "RGB", **options: Any) -> bytes:
    return m.saved(m.photo(mode=mode), "TIFF", **options)


def _with_tag(data: bytes, tag: int, value: int) -> bytes:
    """A little-endian TIFF with a tag's first value changed."""
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    for at in range(start + 2, start + 2 + 12 * count, 12):
        if struct.unpack_from("<H", data, at)[0] == tag:
            return m.patched(data, at + 8, struct.pack("<I", value))
    raise KeyError(tag)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: _tiff("F"), "FORMAT: TIFF: cannot handle samples that are signed or floating point"),
        (lambda: _tiff("I"), "FORMAT: TIFF: cannot handle samples that are signed or floating point"),
        (lambda: _tiff("LAB"), "FORMAT: TIFF: cannot handle colours of kind 8"),
        (lambda: _tiff(tiffinfo={254: 1}), "FORMAT: TIFF: a raw file of a camera, whose first page is a preview"),
        (lambda: _tiff(tiffinfo={50706: b"\1\4\0\0"}), "FORMAT: TIFF: a raw file of a camera, whose first page is"),
        (lambda: _with_tag(_tiff(), 256, 0), "CORRUPT: TIFF: no picture of a positive size: 0 x 64"),
        (lambda: _with_tag(_tiff(), 257, 640), "CORRUPT: TIFF: "),
        (lambda: _with_tag(_tiff(), 259, 6), "FORMAT: TIFF: cannot handle compression 6"),
    ],
    ids=["float", "32 bits", "LAB", "preview", "DNG", "no width", "too high", "old JPEG"],
)
def test_a_tiff_that_is_not_read_is_refused_by_its_header(make: Callable[[], bytes], expected: str) -> None:
    with pytest.raises(RejectError) as found:
        stored(make())
    assert str(found.value).startswith(expected)


def test_a_tiff_whose_piece_is_not_there_is_refused() -> None:
    """libtiff shows such a piece black."""
    tiles = (FOLDER / "tiles.tiff").read_bytes()
    with Image.open(io.BytesIO(tiles)) as picture:
        sizes = picture.tag_v2[325]  # type: ignore[attr-defined]
    row = struct.pack(f"<{len(sizes)}I", *sizes)
    at = tiles.index(row) if row in tiles else tiles.index(struct.pack(f"<{len(sizes)}H", *sizes))
    assert outcome(m.patched(tiles, at, bytes(4))) == "CORRUPT"


def test_sixteen_bits_give_the_same_pixels_in_either_order_of_bytes() -> None:
    levels = np.linspace(0, 65535, 96 * 64).reshape(64, 96).astype("<u2")
    little, big = (m.saved(Image.fromarray(order), "TIFF") for order in (levels, levels.astype(">u2")))

    assert (little[:2], big[:2]) == (b"II", b"MM")
    assert stored(big) == stored(little)


def test_a_big_tiff_whose_directory_is_beyond_all_memory_is_cut() -> None:
    assert outcome(b"II+\0\x08\0\0\0" + b"\xff" * 8 + bytes(64)) == "TRUNCATED"


# --- Which formats are read


def test_a_format_that_is_not_read_says_how_to_read_it() -> None:
    details = {}
    for kind, name in KINDS.items():
        with pytest.raises(RejectError) as found:
            process_image((FOLDER / name).read_bytes(), ImageOptions(formats=("jpeg",)))
        details[kind] = str(found.value)

    assert details == {
        "HEIC": "FORMAT: looks like HEIC; --formats heic,jpeg reads it",
        "AVIF": "FORMAT: looks like AVIF; --formats avif,jpeg reads it",
        "JXL": "FORMAT: looks like JPEG XL; --formats jpeg,jxl reads it (pip install 'shardfeed[formats]')",
        "TIFF": "FORMAT: looks like TIFF or a camera's raw file; --formats jpeg,tiff reads it",
    }
    with pytest.raises(RejectError, match="looks like JPEG XL; --formats default,jxl reads it"):
        process_image((FOLDER / "bare.jxl").read_bytes(), ImageOptions())


def test_the_default_is_what_phones_and_the_web_write() -> None:
    assert DEFAULT_FORMATS == ("avif", "bmp", "gif", "heic", "jpeg", "png", "webp")
    assert parse_formats("default") == DEFAULT_FORMATS
    assert parse_formats(" tiff , default,TIFF") == (*DEFAULT_FORMATS[:6], "tiff", "webp")
    assert parse_formats("png,jpeg") == ("jpeg", "png")


@pytest.mark.parametrize(("text", "named"), [("", "an empty name"), ("default,raw", "raw"), ("png,,jpeg", "an empty")])
def test_a_name_that_is_no_format_is_refused(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"--formats .*{named}.* is no format. Give names out of avif, bmp"):
        parse_formats(text)


def test_a_decoder_that_is_not_installed_is_named_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_spec", lambda module: None if module in ("pylibjxl", "pi_heif") else object())
    require_decoders(("avif", "jpeg", "tiff"))
    with pytest.raises(UsageError, match=r"pip install 'shardfeed\[formats\]'\), or leave jxl out: --formats jpeg$"):
        require_decoders(("jpeg", "jxl"))
    with pytest.raises(UsageError, match=r"pip install pi-heif\), or leave heic out: --formats jpeg$"):
        require_decoders(("heic", "jpeg"))


def test_formats_and_limits_are_in_the_configuration_if_they_are_not_usual() -> None:
    usual = BuildOptions().config()
    other = BuildOptions(ImageOptions(formats=("jpeg", "tiff"), limits=Limits(min_size=32, max_aspect=2))).config()

    added = {name: value for name, value in other.items() if name not in usual}
    assert added == {"formats": ["jpeg", "tiff"], "min_size": 32, "max_aspect": 2}
    assert json.loads(json.dumps(other)) == other


def test_the_gain_map_of_an_ultra_hdr_jpeg_changes_no_pixel() -> None:
    options = ImageOptions(height=64, width=96, keep_original=True)
    plain = m.saved(m.photo(), "JPEG")

    assert process_image(m.ultra_hdr(), options) == process_image(plain, options)
