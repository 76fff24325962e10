"""Which part of a source becomes which pixels of the result, in numbers alone.

The numbers are those of the pixels as they are *stored*; the image is turned upright after
resizing, when it is small. The box is in floats of the full-size source. So a decoder that scales
(JPEG) only divides it, and the box is the same rectangle of the scene to a fraction of a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardfeed.transforms.images.options import ImageOptions

Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True)
class Geometry:
    """Which box of the source is used, and what it becomes.

    ``box``: left, top, width, height of the used part of the source, in stored pixels.
    ``content``: (width, height) that the box is resized to, not yet upright.
    ``output``: (width, height) of the upright result; larger than the content only for ``pad``.
    """

    box: tuple[float, float, float, float]
    content: Size
    output: Size

    @property
    def upscales(self) -> bool:
        """True if a result pixel covers less than one source pixel."""
        return self.content[0] > self.box[2] or self.content[1] > self.box[3]


def geometry_of(source: Size, transposed: bool, options: ImageOptions) -> Geometry:
    """Geometry of a source of ``source`` stored pixels.

    ``transposed``: turning it upright swaps its sides. With ``keep_original``, ``shortest`` and
    ``longest`` never enlarge: an image that is small enough stays as it is.
    """
    full = (0.0, 0.0, float(source[0]), float(source[1]))
    mode = options.resize
    if mode in ("shortest", "longest"):
        content = _by_side(source, options)
        return Geometry(full, content, content[::-1] if transposed else content)
    output = (options.width, options.height)
    target = output[::-1] if transposed else output
    if mode == "squash":
        return Geometry(full, target, output)
    if mode == "pad":
        return Geometry(full, _contained(source, target), output)
    return Geometry(_centred(source, target), target, output)


def _by_side(source: Size, options: ImageOptions) -> Size:
    width, height = source
    known = min(source) if options.resize == "shortest" else max(source)
    if options.keep_original and known <= options.width:
        return source
    return _scaled(width, options.width, known), _scaled(height, options.width, known)


def _contained(source: Size, target: Size) -> Size:
    (width, height), (into_width, into_height) = source, target
    if width * into_height >= into_width * height:
        return into_width, min(into_height, _scaled(height, into_width, width))
    return min(into_width, _scaled(width, into_height, height)), into_height


def _centred(source: Size, target: Size) -> tuple[float, float, float, float]:
    (width, height), (over_width, over_height) = source, target
    if width * over_height > over_width * height:
        used = height * over_width / over_height
        return (width - used) / 2, 0.0, used, float(height)
    used = width * over_height / over_width
    return 0.0, (height - used) / 2, float(width), used


def _scaled(length: int, target: int, known: int) -> int:
    """Value of length * target / known, halves up, in integers; never 0."""
    return max(1, (2 * length * target + known) // (2 * known))
