"""The functions ``map`` and ``map_batches`` of a user: called with a seed, their errors named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.arguments import unexpected
from shardfeed.errors import UsageError, clip

_NUMBERS = "biufcV"  # kinds of types, of NumPy; V: float8 and its like of ml_dtypes

Empty = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Makes an array of a shape and type: ``np.empty``, or one that takes memory from elsewhere."""


@dataclass(frozen=True)
class UserMap:
    """``function`` as the argument ``name`` was given: from a value and a seed to a new value."""

    name: str
    function: Callable[[Any, int], Any]

    @classmethod
    def given(cls, name: str, function: object) -> UserMap | None:
        """None without a function.

        Raises:
            UsageError: it cannot be called.
        """
        if function is None:
            return None
        if not callable(function):
            raise unexpected(name, function, "None or a function of two arguments, a value and a seed")
        return cls(name, function)

    def __call__(self, value: Any, seed: int, where: Callable[[], str]) -> Any:
        """What ``function`` returns.

        Raises:
            UsageError: it failed; says at which record, by ``where``.
        """
        try:
            return self.function(value, seed)
        except Exception as error:  # a user's function may raise anything
            raise UsageError(
                f"{self.name} failed at {where()}: {clip(type(error).__name__)}: {clip(error)}. It is called with two "
                "arguments, a value and a seed. What it raised is the cause of this error."
            ) from error


class MappedRows:
    """The images of a batch that ``map`` makes, in an array of the first one's shape and type."""

    def __init__(self, count: int, empty: Empty) -> None:
        self._count, self._empty = count, empty
        self._lock = threading.Lock()
        self._array: NDArray[Any] | None = None

    def put(self, row: int, image: object, where: Callable[[], str]) -> None:
        """Set one row.

        Raises:
            UsageError: ``image`` is no array, or of another shape or type than the others.
        """
        try:
            value = np.asarray(image)
        except ValueError:  # lists of several lengths
            value = np.empty(0, object)
        if value.dtype.kind not in _NUMBERS:
            raise UsageError(f"map returned {clip(type(image).__name__)} at {where()}: expected an array of numbers.")
        with self._lock:
            if self._array is None:
                self._array = self._empty((self._count, *value.shape), value.dtype)
        if (value.shape, value.dtype) != (self._array.shape[1:], self._array.dtype):
            raise UsageError(
                f"map returned {value.dtype}{list(value.shape)} at {where()}, and {self._array.dtype}"
                f"{list(self._array.shape[1:])} for another image of the batch: return one shape and one type."
            )
        self._array[row] = value

    def array(self) -> NDArray[Any]:
        """All rows."""
        assert self._array is not None  # a batch has at least one row
        return self._array
