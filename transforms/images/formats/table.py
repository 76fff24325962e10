"""The kinds of source files that a build can read: one row each, for code, messages and documents.

``--formats`` names rows. The default rows are what the cameras and screens of phones write, and
what the web holds. A row that is not read by default is one that few data sets need and whose
parser is large (TIFF), or one whose decoder is not installed with the package (JPEG XL).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from shardfeed.errors import UsageError, clip

Kind = Literal["AVIF", "BMP", "GIF", "HEIC", "JPEG", "JXL", "PNG", "TIFF", "WEBP"]

EXTRA = "formats"
"""The extra of our package that brings the decoders that it does not need by itself."""


@dataclass(frozen=True, slots=True)
class InputFormat:
    """A kind of source file.

    ``shown``: its name for people. ``suffixes``: lower-case suffixes of names that such files
    usually have. ``default``: read without ``--formats``. ``decoder``: the library that decodes it.
    ``module``: what has to be importable for that; ``extra``: only an extra installs it.
    ``what``: what becomes of a file of this kind, in Markdown.
    """

    kind: Kind
    shown: str
    suffixes: tuple[str, ...]
    decoder: str
    what: str
    default: bool = True
    module: str = "PIL"
    extra: bool = False

    @property
    def name(self) -> str:
        """As ``--formats`` and the manifest have it."""
        return self.kind.lower()


INPUT_FORMATS: dict[str, InputFormat] = {
    row.name: row
    for row in (
        InputFormat(
            "JPEG",
            "JPEG",
            (".jpg", ".jpeg", ".jpe", ".jfif", ".jfi", ".jif", ".mpo"),
            "simplejpeg (libjpeg-turbo)",
            "Baseline and progressive; gray, RGB, CMYK and YCCK. Of a file of several pictures (MPO) and of Ultra HDR the "
            "main picture is read: the gain map is left out, so the picture is the one that ordinary screens show.",
            module="simplejpeg",
        ),
        InputFormat(
            "PNG",
            "PNG",
            (".png", ".apng"),
            "Pillow",
            "All bit depths and colour types. Of an animation, the first frame.",
        ),
        InputFormat(
            "WEBP", "WebP", (".webp",), "Pillow (libwebp)", "Lossy and lossless. Of an animation, the first frame."
        ),
        InputFormat("GIF", "GIF", (".gif",), "Pillow", "Of an animation, the first frame."),
        InputFormat("BMP", "BMP", (".bmp", ".dib"), "Pillow", "Those with a file header."),
        InputFormat(
            "HEIC",
            "HEIC",
            (".heic", ".heif", ".hif", ".heics", ".heifs"),
            "pi-heif (libheif, libde265)",
            "The main picture, whole or made of tiles, 8 to 12 bits, with alpha. It is turned once, as the container "
            "says; its EXIF orientation only repeats that, and is not applied. Gain map, depth map and thumbnail are left out. "
            "A sequence without a still picture is a reject.",
            module="pi_heif",
        ),
        InputFormat(
            "AVIF",
            "AVIF",
            (".avif", ".avifs"),
            "Pillow (libavif)",
            "8 to 12 bits, with alpha. It is turned once, as the container says. Of a sequence, the first frame.",
        ),
        InputFormat(
            "JXL",
            "JPEG XL",
            (".jxl",),
            "pylibjxl (libjxl)",
            "Bare codestream and container, lossy and lossless, and JPEGs that were packed without loss. Of an animation, "
            "the first frame.",
            default=False,
            module="pylibjxl",
            extra=True,
        ),
        InputFormat(
            "TIFF",
            "TIFF",
            (".tif", ".tiff"),
            "Pillow (libtiff)",
            "The first page, also of BigTIFF: 1, 2, 4, 8 or 16 bits; gray, palette, RGB, CMYK; strips or tiles; uncompressed, "
            "LZW, Deflate, PackBits, JPEG, CCITT. Pixels of floating point and other depths are rejects, and so are raw files "
            "of cameras, whose first page is a preview.",
            default=False,
        ),
    )
}
"""Format by name. The order is that of the documents; lists of names are sorted."""
assert {row.kind for row in INPUT_FORMATS.values()} == set(get_args(Kind))

# Another default makes other datasets of the same flags: raise ENCODER_REVISION with it.
DEFAULT_FORMATS = tuple(sorted(name for name, row in INPUT_FORMATS.items() if row.default))


def parse_formats(text: str) -> tuple[str, ...]:
    """The sorted names of a comma-separated list, in which ``default`` stands for the default ones.

    Raises:
        UsageError: an empty list, or a name that is not in the table.
    """
    names = {name.strip().lower() for name in text.split(",")}
    unknown = sorted(names - INPUT_FORMATS.keys() - {"default"})
    if unknown:
        raise UsageError(
            f"--formats {clip(text)}: {clip(unknown[0]) if unknown[0] else 'an empty name'} is no format. Give names out of "
            f"{', '.join(sorted(INPUT_FORMATS))}, separated by commas; default stands for {','.join(DEFAULT_FORMATS)}. "
            "Example: --formats default,tiff"
        )
    return tuple(sorted({*(names - {"default"}), *(DEFAULT_FORMATS if "default" in names else ())}))


def require_decoders(names: Iterable[str]) -> None:
    """Checks that what decodes these formats is installed.

    Raises:
        UsageError: a decoder is missing.
    """
    for name in names:
        row = INPUT_FORMATS[name]
        if find_spec(row.module) is None:
            others = ",".join(each for each in sorted(names) if each != name)
            raise UsageError(
                f"--formats has {name}, and its decoder ({row.module}) is not installed. Install it "
                f"(pip install {install(row)}), or leave {name} out: --formats {others}"
            )


def install(row: InputFormat) -> str:
    """What pip has to install for a format, as an argument of ``pip install``."""
    return f"'shardfeed[{EXTRA}]'" if row.extra else row.module.replace("_", "-")


def how_to_read(row: InputFormat, chosen: Iterable[str]) -> str:
    """The remedy of a reject: a format that is known, but not among the ``chosen`` ones."""
    usual = set(DEFAULT_FORMATS) <= set(chosen)
    names = [*(["default"] if usual else []), *sorted({*chosen, row.name} - set(DEFAULT_FORMATS if usual else ()))]
    flag = f"--formats {','.join(names)} reads it"
    return f"{flag} (pip install {install(row)})" if row.extra else flag


def shown_names(names: Iterable[str]) -> str:
    """``BMP, GIF and JPEG``: formats for people, in the order of the table."""
    shown = [row.shown for name, row in INPUT_FORMATS.items() if name in set(names)]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
