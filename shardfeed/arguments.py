"""Arguments of the public functions that a trainer calls, checked before anything is opened."""

from __future__ import annotations

import re

from shardfeed.errors import UsageError, clip

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_BYTES = re.compile(r"(\d+)\s*([KMG]?I?B|)", re.IGNORECASE | re.ASCII)


def integer(name: str, value: object, *, least: int | None = None) -> int:
    """``value`` as an int (NumPy's integers too, but not bool) of at least ``least``.

    Raises:
        UsageError: naming the argument ``name``.
    """
    index = getattr(type(value), "__index__", None)
    if index is None or isinstance(value, bool):
        raise UsageError(f"{name}={clip(repr(value))}: expected an integer, found {type(value).__name__}.")
    number = int(index(value))
    if least is not None and number < least:
        raise UsageError(f"{name}={number}: expected an integer of at least {least}.")
    return number


def positive(name: str, value: object) -> int:
    """``value`` as an int of at least 1.

    Raises:
        UsageError: naming the argument ``name``.
    """
    return integer(name, value, least=1)


def height_width(name: str, value: object) -> tuple[int, int]:
    """A pair of positive ints, or one for both.

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, (tuple, list)):
        side = positive(name, value)
        return side, side
    if len(value) != 2:
        raise UsageError(f"{name}={clip(repr(value))}: expected one integer or a pair (height, width).")
    return positive(f"{name}[0]", value[0]), positive(f"{name}[1]", value[1])


def byte_count(name: str, value: object) -> int:
    """Bytes from a positive int or a text such as ``"64MB"`` (10**6) or ``"64MiB"`` (2**20).

    Raises:
        UsageError: naming the argument ``name``.
    """
    if not isinstance(value, str):
        return positive(name, value)
    match = _BYTES.fullmatch(value.strip())
    if match is None or not int(match[1]):
        raise UsageError(
            f"{name}={clip(repr(value))}: expected bytes as a positive int, or a text such as '64MB', '64MiB' or '1GB'."
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``.

    Raises:
        UsageError: naming the argument ``name``.
    """
    if value not in allowed:
        raise UsageError(f"{name}={clip(repr(value))}: expected {' or '.join(map(repr, allowed))}.")
    return str(value)
