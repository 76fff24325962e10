"""The state of a training as one file, which is replaced as a whole, and which one run owns.

The file is a line of JSON, the arrays' bytes, and a closing crc32c. A new state replaces the old
one in one step (a rename on a disk, a conditional upload to a bucket), so a kill leaves one of the
two.

Two runs must not share an address. On a disk the run holds a lock (``flock``), which ends with its
process, and a second run is refused. A bucket has no such lock, and nobody can tell a run that was
killed from a slow one. So there the newer run takes the state over, and the older one is refused
when it saves next: its upload names the generation that it wrote itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from shardfeed import storage
from shardfeed.errors import DatasetError, UsageError, clip
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.storage.base import StorageError

_NAME = "training.state"
_TAIL = 8  # hex digits of the crc32c


@dataclass(frozen=True)
class TrainingState:
    """``facts``: JSON's types only. ``arrays``: by name, in a fixed order."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        shapes = {name: [array.dtype.name, list(array.shape)] for name, array in self.arrays.items()}
        head = json.dumps({"facts": self.facts, "arrays": shapes}).encode() + b"\n"
        body = b"".join((head, *(np.ascontiguousarray(array).tobytes() for array in self.arrays.values())))
        return body + to_hex(crc32c(body)).encode()


def parse_state(data: bytes, where: str) -> TrainingState:
    """The state in ``data``.

    Raises:
        DatasetError: torn or foreign bytes; names ``where``.
    """
    body, tail = data[:-_TAIL], data[-_TAIL:]
    if len(data) <= _TAIL or tail != to_hex(crc32c(body)).encode():
        raise DatasetError(
            f"{clip(where)} is no state of a training, or is damaged: its crc32c does not fit. Delete it to begin anew, or "
            "give another address."
        )
    head, _, rest = body.partition(b"\n")
    raw, arrays, at = json.loads(head), {}, 0
    for name, (kind, shape) in raw["arrays"].items():
        dtype = _dtype(kind)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(rest[at : at + size], dtype).reshape(shape)
        at += size
    return TrainingState(raw["facts"], arrays)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # a dependency of Keras

        bfloat16: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return bfloat16


def open_state_file(
    address: str | os.PathLike[str], dataset: str = "", *, writes: bool = True
) -> LocalStateFile | GcsStateFile:
    """The state of the training at ``address``: a folder, or ``gs://bucket/folder``.

    One host of a run ``writes``. The others read, and do not ask for the lock that it holds.
    ``dataset``: address of the dataset, which must be another one.

    Raises:
        UsageError: no address, the dataset's, or another run holds it.
    """
    url = os.fspath(address) if isinstance(address, (str, os.PathLike)) else None
    if not url or _normal(url) == _normal(dataset):
        raise UsageError(f"resume={clip(repr(address))}: expected a folder, or gs://bucket/folder, for this run alone.")
    storage.check_address(url, "resume")
    return GcsStateFile(_normal(url)) if storage.is_remote(url) else LocalStateFile(url, writes=writes)


def _normal(address: str) -> str:
    if storage.is_remote(address):
        return storage.normal_url(address)
    return os.path.abspath(os.path.expanduser(address))


class LocalStateFile:
    """A file in a folder of its own, locked until ``close`` if it ``writes``."""

    def __init__(self, folder: str, *, writes: bool = True) -> None:
        self.url = _normal(folder)
        self._path = os.path.join(self.url, _NAME)
        self._lock: IO[bytes] | None = None
        if writes:
            self._take(folder)

    def _take(self, folder: str) -> None:
        try:
            os.makedirs(self.url, exist_ok=True)
            self._lock = open(os.path.join(self.url, "lock"), "ab")  # noqa: SIM115 (held until close)
        except OSError as error:
            raise UsageError(
                f"resume={clip(folder)}: cannot be written ({error.strerror}). Choose a folder that can be."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"resume={clip(folder)}: another run is training with this address. Give each run its own, or end the other one."
            ) from None
        except OSError as error:
            self.close()
            raise UsageError(
                f"resume={clip(folder)}: cannot be locked ({error.strerror}), so two runs could write there. Choose a folder on "
                "a disk that has locks, or one on gs://."
            ) from error

    def read(self) -> TrainingState | None:
        """The last state that was written."""
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            return parse_state(file.read(), self._path)
        return None

    def write(self, state: TrainingState) -> None:
        """Replaces the state."""
        temporary = f"{self._path}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(state.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except OSError as error:
            raise StorageError(
                f"resume={clip(self.url)}: the state cannot be written ({error.strerror}). Free some space, then run the same "
                "script again."
            ) from error

    def close(self) -> None:
        """Gives the address back."""
        if self._lock is not None:
            self._lock.close()


class GcsStateFile:
    """An object below a bucket's folder, whose generation only one run knows."""

    def __init__(self, url: str) -> None:
        from shardfeed.storage.gcs import GcsStore

        self.url = url
        self._store, self._generation = GcsStore(url), 0

    def read(self) -> TrainingState | None:
        """The last state that was written.

        The first ``write`` after it takes the address over; if another run has written in between,
        it is refused.
        """
        from shardfeed.storage.base import NotFoundError

        found = self._store.stat(_NAME)
        if found is None:
            return None
        try:
            state = parse_state(self._store.read_unchecked(_NAME, found.version), f"{self.url}/{_NAME}")
        except NotFoundError:  # another run has just written
            raise self._refused() from None
        self._generation = found.version
        return state

    def write(self, state: TrainingState) -> None:
        """Replaces the state.

        Raises:
            UsageError: another run has written since.
        """
        from google.api_core.exceptions import PreconditionFailed

        from shardfeed.storage.object_clients import TIMEOUT

        data, blob = state.to_bytes(), self._store.blob(_NAME)

        def upload() -> None:
            try:
                blob.upload_from_file(
                    io.BytesIO(data), size=len(data), if_generation_match=self._generation, timeout=TIMEOUT,
                    checksum="auto", retry=None,
                )  # fmt: skip
            except PreconditionFailed:
                # Perhaps our own attempt, whose answer was lost.
                if self._store.read(_NAME) != data:
                    raise self._refused() from None
                blob.reload(timeout=TIMEOUT)

        self._store.call("create", _NAME, upload)
        self._generation = int(blob.generation)

    def close(self) -> None:
        """Nothing is held."""

    def _refused(self) -> UsageError:
        return UsageError(
            f"resume={clip(self.url)}: another run has begun to train with this address. Give each run its own, or end the "
            "other one."
        )
