"""A decoder that crashes, hangs or eats memory: what the last bytes of a file say, it does."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from shardfeed.transforms.images import process

_BOOT = "from tests.kit import bad_codec; bad_codec.install(); "


def _crash() -> None:
    ctypes.string_at(0)


def _spin() -> None:
    while True:
        pass


def _sleep() -> None:
    ctypes.PyDLL(None).pause()  # and keeps the interpreter's lock, so that no thread goes on


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(np.empty(64 << 20, np.uint8))


def _leave() -> None:
    os._exit(7)


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


DEEDS: dict[bytes, Callable[[], None]] = {
    b"#crash": _crash,
    b"#spin": _spin,
    b"#sleep": _sleep,
    b"#eat": _eat,
    b"#leave": _leave,
    b"#kill": _killed,
}


def install() -> None:
    """Makes this process's decoder a bad one."""
    good = process.process_image

    def bad(data: bytes, *args: Any, **kwargs: Any) -> Any:
        for word, deed in DEEDS.items():
            if data.endswith(word):
                deed()
        return good(data, *args, **kwargs)

    process.process_image = bad


def bad_codec() -> None:
    """A hook: the decoder of this process, and of all that it starts, is a bad one."""
    from shardfeed.transforms.pool import isolated, pool

    install()
    for module in (isolated, pool):
        setattr(module, "_BOOT", _BOOT + vars(module)["_BOOT"])  # noqa: B010
