"""Arguments of the public functions that a trainer calls, checked before anything is opened."""

from __future__ import annotations

import operator
import re
from fractions import Fraction

from shardfeed.errors import UsageError, clip

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{kind}": base**power
    for power, prefix in enumerate("KMGT", 1)
    for kind, base in (("B", 1000), ("IB", 1024))
}
COUNT = (1 << 31) - 1  # most of a count: a product of two still fits into TensorFlow's 64 bits
# splits that are evaluated, by their names
EVALUATED = ("validation", "valid", "val", "dev", "test", "eval")
_BYTES_MOST = 1 << 60
_THREADS_MOST = 1024  # batches are made ahead by the thread
_SIDE_MOST = 65_535  # pixels: JPEG has no larger images
_BYTES = re.compile(r"(\d{1,30}|\d{1,30}\.\d{1,30}(?=\s*[KMGT]))\s*([KMGT]I?B|B|)", re.IGNORECASE | re.ASCII)


def unexpected(name: str, value: object, expected: str) -> UsageError:
    """The error for an argument ``name`` of another ``value`` than ``expected``."""
    return UsageError(f"{name}={clip(repr(value))}: expected {expected}.")


def integer(name: str, value: object, *, least: int | None = None, most: int = COUNT) -> int:
    """``value`` as an int (NumPy's too, but not bool), with ``least`` from there up to ``most``.

    Raises:
        UsageError: naming the argument ``name``.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # also for NumPy arrays, which have the method
        number = None
    if number is None or isinstance(value, bool):
        raise unexpected(name, value, f"an integer, found {type(value).__name__}")
    if least is not None and number < least:
        raise UsageError(f"{name}={clip(number, 40)}: expected an integer of at least {least}.")
    if least is not None and number > most:
        raise UsageError(f"{name}={clip(number, 40)}: expected an integer of at most {most}.")
    return number


def positive(name: str, value: object) -> int:
    """``value`` as an int of at least 1.

    Raises:
        UsageError: naming the argument ``name``.
    """
    return integer(name, value, least=1)


def thread_count(value: object) -> int:
    """``value`` of an argument ``threads``, an int from 1 to 1024.

    Raises:
        UsageError: it is another value.
    """
    return integer("threads", value, least=1, most=_THREADS_MOST)


def distinct_names(name: str, value: object) -> tuple[str, ...]:
    """A sequence of different texts, at least one, none of them empty and all of them UTF-8.

    Raises:
        UsageError: naming the argument ``name``.
    """
    names = tuple(value) if isinstance(value, (tuple, list)) else ()
    texts = all(isinstance(one, str) and one.encode(errors="ignore").decode() == one != "" for one in names)
    if not names or not texts or len(set(names)) < len(names):
        raise unexpected(name, value, "one text or more, each once")
    return names


def flag(name: str, value: object, allowed: str = "True or False") -> bool:
    """``value``, which must be True or False itself; ``allowed`` is for the error.

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, bool):
        raise unexpected(name, value, allowed)
    return value


def is_training(split: str, training: object) -> bool:
    """Whether ``split`` is trained on; by its name if ``training`` is None.

    Raises:
        UsageError: the name says neither, or ``training`` is neither True, False nor None.
    """
    if training is not None:
        return flag("training", training, "True, False or None")
    name = split.partition("[")[0]  # of "train[:10%]", train
    if name != "train" and name not in EVALUATED:
        raise UsageError(
            f"split {clip(repr(split))}: its name does not say what it is for. Pass training=True for an endless stream of "
            "(x, y), or training=False for one exact pass of (x, y, w)."
        )
    return name == "train"


def host_pair(value: object) -> tuple[int, int]:
    """Index and count of hosts, from a pair of them.

    Raises:
        UsageError: not a pair of integers, or an index that is not below the count.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        expected = "a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'"
        raise unexpected("host", value, expected)
    index, count = integer("host[0]", value[0]), positive("host[1]", value[1])
    if not 0 <= index < count:
        raise UsageError(f"host={clip((index, count), 60)}: expected an index from 0 to {count - 1} for {count} hosts.")
    return index, count


def height_width(name: str, value: object) -> tuple[int, int]:
    """A pair of ints from 1 to 65,535, or one for both.

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, (tuple, list)):
        side = integer(name, value, least=1, most=_SIDE_MOST)
        return side, side
    if len(value) != 2:
        raise unexpected(name, value, "one integer or a pair (height, width)")
    height, width = (integer(f"{name}[{i}]", side, least=1, most=_SIDE_MOST) for i, side in enumerate(value))
    return height, width


def byte_count(name: str, value: object) -> int:
    """Bytes from a positive int or a text such as ``"64MB"`` (10**6) or ``"64MiB"`` (2**20).

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, str):
        return integer(name, value, least=1, most=_BYTES_MOST)
    match = _BYTES.fullmatch(value.strip())
    count = int(Fraction(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if not count:
        raise unexpected(name, value, "bytes as a positive int, or a text such as '64MB', '64MiB' or '1.5GB'")
    return integer(name, count, least=1, most=_BYTES_MOST)


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``.

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, str) or value not in allowed:  # an array may equal a text
        raise unexpected(name, value, " or ".join(map(repr, allowed)))
    return str(value)


def crop_kind(value: object, *, training: bool) -> str | None:
    """The argument ``crop``: None, "center" or, for training, "random_resized".

    Raises:
        UsageError: it is something else.
    """
    kind = None if value is None else choice("crop", value, ("center", "random_resized"))
    if kind == "random_resized" and not training:
        raise UsageError("crop='random_resized': evaluation is not random. Use crop='center', or pass training=True.")
    return kind


def parse_image_size(text: str) -> tuple[int, int]:
    """(height, width) of ``224`` or ``224x320`` (height first).

    Raises:
        UsageError: another form.
    """
    match = re.fullmatch(r"0*([0-9]{1,9})(?:[xX]0*([0-9]{1,9}))?", text)
    if not match:
        raise UsageError(f"--image_size {clip(text)}: give one number (224) or HEIGHTxWIDTH (224x320), in pixels.")
    return int(match[1]), int(match[2] or match[1])
