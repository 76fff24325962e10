"""What a build's process does to itself before it begins: counting, killing, meddling. Imported by the builder.

Everything here is picklable and applied by ``functools.partial``: ``hooks=[partial(kill_before, 17)]``.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from shardfeed import storage
from shardfeed.storage.base import Listed
from shardfeed.storage.local import LocalStore
from shardfeed.storage.local_source import LocalSource

# ---- steps on the disk


class SteppedStore(LocalStore):
    """A local store that says «what» and «where» before every step that changes the disk.

    A folder that is there is not made and a file that is not there is not removed, so these are no steps; nor is a sync,
    which changes nothing that a killed process could leave otherwise.
    """

    before: Callable[[str, str, Callable[[], None]], None]

    def _step(self, what: str, path: str, tear: Callable[[], None]) -> None:
        type(self).before(what, os.path.relpath(path, self._root), tear)

    def _mkdir(self, path: str) -> None:
        if not os.path.isdir(path):
            self._step("mkdir", path, _nothing)
        super()._mkdir(path)

    def _write_temp(self, path: str, data: bytes, durable: bool) -> None:
        self._step("write", path, lambda: LocalStore._write_temp(self, path, data[: len(data) // 2], durable))
        super()._write_temp(path, data, durable)

    def _copy_temp(self, path: str, data: BinaryIO, durable: bool) -> None:
        def tear() -> None:
            LocalStore._copy_temp(self, path, data, durable)
            os.truncate(path, os.path.getsize(path) // 2)

        self._step("write", path, tear)
        super()._copy_temp(path, data, durable)

    def _concatenate_temp(self, path: str, sources: Sequence[str], durable: bool) -> None:
        def tear() -> None:
            LocalStore._concatenate_temp(self, path, sources, durable)
            os.truncate(path, os.path.getsize(path) // 2)

        self._step("write", path, tear)
        super()._concatenate_temp(path, sources, durable)

    def _link(self, temp: str, final: str) -> None:
        self._step("link", final, _nothing)
        super()._link(temp, final)

    def _unlink(self, path: str) -> None:
        if os.path.lexists(path):
            self._step("unlink", path, _nothing)
        super()._unlink(path)

    def _rmdir(self, path: str) -> None:
        if os.path.isdir(path) and not os.listdir(path):
            self._step("rmdir", path, _nothing)
        super()._rmdir(path)


def _nothing() -> None:
    pass


def _before_steps(before: Callable[[int, str, str, Callable[[], None]], None]) -> None:
    count = iter(range(1 << 30))
    lock = threading.Lock()

    def numbered(what: str, path: str, tear: Callable[[], None]) -> None:
        with lock:
            before(next(count), what, path, tear)

    SteppedStore.before = staticmethod(numbered)  # type: ignore[method-assign, assignment]
    storage.open_store = SteppedStore  # type: ignore[assignment]


def record_steps(log: Path) -> None:
    """Writes «what path» of every step to ``log``."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _before_steps(lambda _number, what, path, _tear: os.write(file, f"{what} {path}\n".encode()) and None)


def kill_before(number: int, torn: bool) -> None:
    """SIGKILL before the step of this number; ``torn``: with half of what it would write written."""

    def kill(step: int, _what: str, _path: str, tear: Callable[[], None]) -> None:
        if step == number:
            if torn:
                tear()
            os.kill(os.getpid(), signal.SIGKILL)

    _before_steps(kill)


# ---- calls on the store


def before_calls(act: Callable[[int, str, str], None]) -> None:
    """Calls ``act(number, method, name)`` before every call of the store that reads or changes something."""
    count = iter(range(1 << 30))
    lock = threading.RLock()

    def wrap(name: str) -> Callable[..., Any]:
        method = getattr(LocalStore, name)

        def called(self: LocalStore, *args: Any, **kwargs: Any) -> Any:
            with lock:
                act(next(count), name, args[0] if args else "")
            return method(self, *args, **kwargs)

        return called

    members = {name: wrap(name) for name in ("read", "stat", "checksum", "list", "create", "compose", "delete")}
    storage.open_store = type("CalledStore", (LocalStore,), members)


def record_calls(log: Path) -> None:
    """Writes «method name» of every call to ``log``."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    before_calls(lambda _number, method, name: os.write(file, f"{method} {name}\n".encode()) and None)


def run_before_call(number: int, other: Any, answer: Path) -> None:
    """Before the call of this number, another command (a ``Request``) runs from its beginning to its end.

    ``answer`` gets its exit code, a newline and what it said.
    """
    from tests.promises.builder import ask

    def interrupt(call: int, _method: str, _name: str) -> None:
        if call == number:
            ended = ask(other)
            answer.write_text(f"{ended.code}\n{ended.err}")

    before_calls(interrupt)


# ---- images


def count_images(log: Path) -> None:
    """One byte in ``log`` for every image that is decoded."""
    from transforms import encoding

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    process = encoding.process_image

    def counted(*args: Any, **kwargs: Any) -> Any:
        os.write(file, b".")
        return process(*args, **kwargs)

    encoding.process_image = counted


def kill_at_image(number: int) -> None:
    """SIGKILL while the image of this number is in a thread of the pool."""
    from transforms import encoding

    count = iter(range(1 << 30))
    process = encoding.process_image

    def killing(*args: Any, **kwargs: Any) -> Any:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return process(*args, **kwargs)

    encoding.process_image = killing


def signal_at_image(number: int) -> None:
    """SIGINT, as from Ctrl-C, while the image of this number is in a thread of the pool."""
    from transforms import encoding

    count = iter(range(1 << 30))
    process = encoding.process_image

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGINT)
        return process(*args, **kwargs)

    encoding.process_image = interrupted


def kill_at_publishing() -> None:
    """SIGKILL when all parts are finished and the first shard is about to be composed."""
    from transforms import compose_shards

    compose_shards.compose_shard = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, return-value]


def parts_a_shard(count: int) -> None:
    """Fewer parts than the product makes, where a test kills at every one of them."""
    from transforms import plan

    plan.PARTS_A_SHARD = count


# ---- listings


def batches_of(refs: int) -> None:
    """Batches of so many references."""
    from transforms import listing

    listing.BATCH_REFS = refs


def reorder_listing(seed: int | None) -> None:
    """The input's folders and files come in another order: backwards, or shuffled by ``seed``."""
    list_section, sections = LocalSource.list, LocalSource.sections

    def reordered(items: list[Any]) -> list[Any]:
        if seed is None:
            return items[::-1]
        random.Random(seed).shuffle(items)
        return items

    def listing(self: LocalSource, section: bytes) -> Iterator[Listed]:
        return iter(reordered(list(list_section(self, section))))

    LocalSource.list = listing  # type: ignore[method-assign]
    LocalSource.sections = lambda self: reordered(sections(self))  # type: ignore[method-assign]


def before_encoding(act: Callable[[], None]) -> None:
    """Something happens to the input between its listing and its reading."""
    from transforms import encoding

    submit = encoding.PartEncoder.submit
    once = iter([act])

    def acting(self: Any, *args: Any) -> Any:
        for call in once:
            call()
        return submit(self, *args)

    encoding.PartEncoder.submit = acting  # type: ignore[method-assign]


# ---- mutations: a build that loses or doubles something


def lose_part() -> None:
    """A finished part never reaches the next step, whoever finished it."""
    from transforms import encoding

    submit = encoding.PartEncoder.submit
    lost: list[tuple[str, int]] = []

    def losing(self: Any, *args: Any) -> Iterator[Any]:
        for result in submit(self, *args):
            if not lost and result.records:
                lost.append((result.split, result.part))
            if (result.split, result.part) not in lost:
                yield result

    encoding.PartEncoder.submit = losing  # type: ignore[method-assign]


def lose_and_double_images(lost: bytes, doubled: bytes) -> None:
    """One image is dropped without a word, another is written twice; an empty key is no image."""
    from transforms import encoding

    encode = encoding.PartEncoder._encode_one

    def meddling(self: Any, ref: Any, out: Any) -> None:
        if ref.key != lost:
            encode(self, ref, out)
        if ref.key == doubled:
            encode(self, ref, out)

    encoding.PartEncoder._encode_one = meddling  # type: ignore[method-assign]


def lose_rejects() -> None:
    """Images that cannot be used are dropped instead of being written down."""
    from transforms import encoding
    from transforms.images.rejects import RejectError

    encode = encoding.PartEncoder._encode_one

    def hiding(self: Any, ref: Any, out: Any) -> None:
        try:
            encode(self, ref, out)
        except RejectError:
            return

    encoding.PartEncoder._encode_one = hiding  # type: ignore[method-assign]
