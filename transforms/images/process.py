"""One image: the bytes of a file become the bytes in the dataset, or a reject.

The order is fixed. The size of the file, the signature, the size in the header and the size of the
result are checked before a pixel is allocated. JPEGs are scaled while they are decoded. Turning
upright and applying a colour profile come after resizing, on the small image. Any input gives an
``EncodedImage`` or a ``RejectError``; any other exception is a bug, or a machine out of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from PIL import Image, ImageFile

from shardfeed.transforms.images import decode
from shardfeed.transforms.images.encode import encode, pixel_stats
from shardfeed.transforms.images.fixes import FIXES
from shardfeed.transforms.images.formats.jpeg_header import JpegHeader, read_jpeg_header
from shardfeed.transforms.images.formats.keep import stripped_jpeg
from shardfeed.transforms.images.limits import check_output, check_size, check_source
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.pixels.colour import fill_colour, is_srgb, to_channels, to_plain, to_srgb
from shardfeed.transforms.images.pixels.geometry import Geometry, geometry_of
from shardfeed.transforms.images.pixels.orientation import SWAPS_SIDES, upright_turn
from shardfeed.transforms.images.pixels.perceptual_hash import HASH_SIDE, Samples
from shardfeed.transforms.images.pixels.resize import resize
from shardfeed.transforms.images.pixels.stats import Stats
from shardfeed.transforms.images.sniff import Header, read_header, sniff

Reserve = Callable[[int], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """One stored image: ``height`` and ``width`` in pixels, ``fixes`` by the names in ``FIXES``."""

    data: bytes
    height: int
    width: int
    fixes: tuple[str, ...]
    stats: Stats | None


def process_image(
    data: bytes,
    options: ImageOptions,
    *,
    with_stats: bool = False,
    reserve: Reserve = nullcontext,
    samples: Samples | None = None,
) -> EncodedImage:
    """Decode, correct, resize and encode one image.

    Args:
        data: a whole file of any format; what it is, its content decides.
        options: what the stored image shall be.
        with_stats: also sum the pixels that were stored.
        reserve: gives a context manager, held while so many bytes of pixels are in memory.
        samples: takes samples of the whole picture, for its fingerprints.

    Raises:
        RejectError: the image cannot be used.
    """
    check_size(len(data), options.limits)
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise RuntimeError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True: truncated images would pass as whole ones. "
            "Something else in this process set it; set it back to False."
        )
    kind = sniff(data, options.formats)
    if kind == "JPEG":
        return _process_jpeg(data, options, with_stats, reserve, samples)
    return _process_other(data, read_header(data, kind), options, with_stats, reserve, samples)


def take_samples(data: bytes, options: ImageOptions, samples: Samples, reserve: Reserve) -> None:
    """Takes the samples that ``process_image`` takes, of an image that is stored already.

    Raises:
        RejectError: the image cannot be used.
    """
    kind = sniff(data, options.formats)
    if kind == "JPEG":
        jpeg = read_jpeg_header(data)
        mode = decode.jpeg_mode(jpeg, options.channels)
        with reserve(decode.jpeg_peak(jpeg, _hash_factor(jpeg), mode)):
            _sample_jpeg(samples, data, jpeg, mode, None, upright_turn(jpeg.info), options)
        return
    header = read_header(data, kind)
    with reserve(decode.peak(header)):
        image, raw_mode, _ = decode.load_other(data, header)
        if header.profile is not None:
            image.info["icc_profile"] = header.profile
        samples.take_image(to_plain(image, raw_mode, options.background, set())[0], upright_turn(image.info))


def _process_jpeg(
    data: bytes, options: ImageOptions, with_stats: bool, reserve: Reserve, samples: Samples | None
) -> EncodedImage:
    header = read_jpeg_header(data)
    full = header.size
    check_source(*full, options.limits)
    fixes: set[str] = set()
    turn = upright_turn(header.info)
    if turn is not None:
        fixes.add("exif_orientation")
    planned = geometry_of(full, turn in SWAPS_SIDES, options)
    check_output(*planned.output)
    if options.keep_original and turn is None and planned.content == planned.output == full:
        kept = _kept(header, data, options, with_stats, reserve, samples)
        if kept is not None:
            return kept
    factor, mode = decode.scale_jpeg(header, planned.content), decode.jpeg_mode(header, options.channels)
    peak = decode.jpeg_peak(header, factor, mode) + decode.result_bytes(planned.output)
    with reserve(peak + _peak_of_samples(samples, header, factor, mode)):
        pixels, fix, array = decode.load_jpeg(data, header, factor, mode)
        if fix is not None:
            fixes.add(fix)
        if samples is not None:
            decoded = (pixels, array) if factor == _hash_factor(header) else None
            _sample_jpeg(samples, data, header, mode, decoded, turn, options)
        result = _render(pixels, "", planned, factor, turn, options, fixes)
    return _stored(result, options, fixes, with_stats)


def _hash_factor(header: JpegHeader) -> int:
    """The scale at which a JPEG is hashed. It depends on the source alone."""
    return decode.scale_jpeg(header, (HASH_SIDE, HASH_SIDE))


def _peak_of_samples(samples: Samples | None, header: JpegHeader, factor: int, mode: str) -> int:
    """Bytes that a second decoding takes, which a build to another scale than the hash's needs."""
    scale = _hash_factor(header)
    return 0 if samples is None or scale == factor else decode.jpeg_peak(header, scale, mode)


def _sample_jpeg(
    samples: Samples,
    data: bytes,
    header: JpegHeader,
    mode: str,
    decoded: tuple[Image.Image, decode.Pixels | None] | None,
    turn: Image.Transpose | None,
    options: ImageOptions,
) -> None:
    """Takes samples of a JPEG; ``decoded``: its pixels at the hash's scale, if they are there."""
    image, array = decoded or decode.load_jpeg(data, header, _hash_factor(header), mode)[::2]
    if array is not None and mode != "CMYK":
        samples.take_decoded(array, turn)
    else:
        samples.take_image(to_plain(image, "", options.background, set())[0], turn)


def _kept(
    header: JpegHeader,
    data: bytes,
    options: ImageOptions,
    with_stats: bool,
    reserve: Reserve,
    samples: Samples | None,
) -> EncodedImage | None:
    """The image as it is, proven good by decoding it; None if it has to be encoded again."""
    if options.format != "jpeg" or header.mode != ("L" if options.channels == "gray" else "RGB"):
        return None
    if not is_srgb(header.info.get("icc_profile"), header.mode):
        return None
    stripped = stripped_jpeg(data)
    if stripped is None:
        return None
    header = read_jpeg_header(stripped)
    with reserve(decode.jpeg_peak(header, 1, header.mode) + _peak_of_samples(samples, header, 1, header.mode)):
        pixels, fix, array = decode.load_jpeg(stripped, header, 1, header.mode)
        stats = pixel_stats(pixels) if with_stats else None
        if samples is not None and fix is None:
            decoded = (pixels, array) if _hash_factor(header) == 1 else None
            _sample_jpeg(samples, stripped, header, header.mode, decoded, None, options)
    if fix is not None:  # readers decode with simplejpeg alone
        return None
    return EncodedImage(stripped, *header.size[::-1], ("kept_original",), stats)


def _process_other(
    data: bytes,
    header: Header,
    options: ImageOptions,
    with_stats: bool,
    reserve: Reserve,
    samples: Samples | None,
) -> EncodedImage:
    full = header.width, header.height
    check_source(*full, options.limits)
    output = geometry_of(full, False, options).output
    check_output(*output)
    fixes = set(header.fixes)
    with reserve(decode.peak(header) + decode.result_bytes(output)):
        image, raw_mode, more = decode.load_other(data, header)
        full = image.size  # a container's turn is applied
        if header.profile is not None:
            image.info["icc_profile"] = header.profile
        if more:
            fixes.add("first_frame")
        turn = upright_turn(image.info)  # known only now: a PNG may say it behind its pixels
        if turn is not None:
            fixes.add("exif_orientation")
        planned = geometry_of(full, turn in SWAPS_SIDES, options)
        result = _render(image, raw_mode, planned, 1, turn, options, fixes, samples)
    return _stored(result, options, fixes, with_stats)


def _render(
    image: Image.Image,
    raw_mode: str,
    planned: Geometry,
    factor: int,
    turn: Image.Transpose | None,
    options: ImageOptions,
    fixes: set[str],
    samples: Samples | None = None,
) -> Image.Image:
    """Loaded pixels, decoded at 1 / ``factor``, to the final ones."""
    plain, profile = to_plain(image, raw_mode, options.background, fixes)
    if samples is not None:
        samples.take_image(plain, turn)
    if planned.upscales:
        fixes.add("upscaled")
    box = planned.box if factor == 1 else tuple(side / factor for side in planned.box)
    small = resize(plain, box, planned.content, options.resizer)  # type: ignore[arg-type]
    if profile:
        small = to_srgb(small, profile, fixes)
    if turn is not None:
        small = small.transpose(turn)
    small = to_channels(small, options, fixes)
    if small.size != planned.output:
        small = _padded(small, planned.output, options.background)
    small.info = {}
    return small


def _padded(image: Image.Image, size: tuple[int, int], background: tuple[int, int, int]) -> Image.Image:
    canvas = Image.new(image.mode, size, fill_colour(image.mode, background))
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def _stored(image: Image.Image, options: ImageOptions, fixes: set[str], with_stats: bool) -> EncodedImage:
    return EncodedImage(
        data=encode(image, options),
        height=image.height,
        width=image.width,
        fixes=tuple(name for name in FIXES if name in fixes) if fixes else (),
        stats=pixel_stats(image) if with_stats else None,
    )
