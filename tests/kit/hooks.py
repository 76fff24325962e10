"""What a build's process does to itself before it begins: counting, killing, meddling.

The builder imports this. Everything here can be pickled and is applied by ``functools.partial``:
``hooks=[partial(kill_before, 17)]``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import resource
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shardfeed.transforms import stores
from shardfeed.transforms.sources.local import LocalSource
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.builder import Request, ask


def put(owner: object, name: str, value: object) -> None:
    """Puts ``value`` in place of a name, which must be there: else a hook would change nothing."""
    assert hasattr(owner, name), f"{owner} has no {name} to replace"
    setattr(owner, name, value)


def appender(log: Path) -> Callable[[bytes], None]:
    """Writes to ``log`` at once: what was written before a SIGKILL is there."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(data: bytes) -> None:
        os.write(file, data)

    return write


# ---- other commands


def run_other(other: Request, answer: Path) -> None:
    """Another command runs to its end; ``answer`` gets its exit code and what it printed."""
    ended = ask(other)
    answer.write_text(f"{ended.code}\n{ended.err}")


# ---- images


def _before_images(act: Callable[[int], None]) -> None:
    """Calls ``act(number)`` in the pool's threads before an image is decoded."""
    from shardfeed.transforms.images import process

    make, count = process.process_image, iter(range(1 << 30))

    def acting(*args: Any, **kwargs: Any) -> Any:
        act(next(count))
        return make(*args, **kwargs)

    put(process, "process_image", acting)


def count_images(log: Path) -> None:
    """One byte in ``log`` for every image that is decoded."""
    write = appender(log)
    _before_images(lambda _number: write(b"."))


def record_imports(log: Path) -> None:
    """A line in ``log`` for every module that the process loads."""
    write = appender(log)
    sys.addaudithook(lambda event, args: write(f"{args[0]}\n".encode()) if event == "import" else None)


def count_bundles(log: Path) -> None:
    """Writes a line to ``log`` for every step of every bundle that a worker here runs."""
    from apache_beam.runners.worker import bundle_processor

    write = appender(log)
    process = vars(bundle_processor.BundleProcessor)["process_bundle"]

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        transforms = self.process_bundle_descriptor.transforms.values()
        write("".join(f"{transform.unique_name}\n" for transform in transforms).encode())
        return process(self, *args, **kwargs)

    put(bundle_processor.BundleProcessor, "process_bundle", counting)


def runs_by_step(log: Path) -> Counter[str]:
    """How often each step ran, as ``count_bundles`` wrote it down."""
    return Counter(log.read_text().splitlines())


def signal_at_image(number: int, what: signal.Signals) -> None:
    """The process gets a signal while the image of this number is in a thread of the pool.

    The image waits for what the signal does.
    """
    from shardfeed import signals

    stops, taken = signals.after_images_in_hand, threading.Event()

    def send(image: int) -> None:
        if image == number:
            os.kill(os.getpid(), what)
            taken.wait(60)

    def stopping(stop: Callable[[], None]) -> Callable[[], None]:
        def noting() -> None:
            stop()
            taken.set()

        return stops(noting)

    put(signals, "after_images_in_hand", stopping)
    _before_images(send)


def act_at_image(number: int, act: Callable[[], None]) -> None:
    """Something happens while the image of this number is in a thread of the pool."""
    _before_images(lambda image: act() if image == number else None)


def in_step(images: int, own: Path, other: Path) -> None:
    """Waits for another build before each of the first ``images`` images, and before the manifest.

    ``own`` and ``other`` are named pipes: each build calls the other one through that one's pipe.
    """
    call, hear = (os.open(pipe, os.O_RDWR) for pipe in (other, own))  # both ways: so that opening waits for nobody

    def meet() -> None:
        os.write(call, b".")
        os.read(hear, 1)

    _before_images(lambda image: meet() if image < images else None)
    before_manifest(meet)


def fail_from_image(number: int) -> None:
    """A bug of ours."""

    def fail(image: int) -> None:
        if image >= number:
            raise ZeroDivisionError("a bug")

    _before_images(fail)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_publishing() -> None:
    """SIGKILL when all parts are finished and the first shard is about to be composed."""
    from shardfeed.transforms.publish import composing

    put(composing, "compose_shard", lambda *_: kill_self())


def before_manifest(act: Callable[[], object]) -> None:
    """Something happens when everything is composed, right before the manifest."""
    from shardfeed.transforms.publish import manifest_commit

    hold_claim = vars(manifest_commit)["hold_claim"]

    def acting(*args: Any) -> None:
        act()
        hold_claim(*args)

    put(manifest_commit, "hold_claim", acting)


def kill_between_two_manifests() -> None:
    """SIGKILL when repeated bundles are about to publish a manifest for the second time.

    Nothing is swept by then.
    """
    times = iter(range(2))
    before_manifest(lambda: kill_self() if next(times) == 1 else None)


def parts_a_shard(count: int) -> None:
    """Fewer parts than the product makes, where a test kills at every one of them."""
    from shardfeed.transforms.planning import plan

    put(plan, "PARTS_A_SHARD", count)


def one_image_a_slice() -> None:
    """Every image is a slice of its own: as many are decoded at a time as there are threads."""
    from shardfeed.transforms.encode import slices

    put(slices, "_SLICE_IMAGES", (1, 1))
    put(slices, "_SLICE_OF_ONE_THREAD", 1)


def rejects_a_file(lines: int) -> None:
    """Rejects files of so many lines."""
    from shardfeed.transforms.publish import rejects_files

    put(rejects_files, "LINES_A_FILE", lines)


def limit_memory(more: int) -> None:
    """The process may map ``more`` bytes above what it has mapped now."""
    ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX: else every thread maps 64 MB for its own small objects
    threading.stack_size(1 << 20)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def obey_permissions() -> None:
    """Permissions bind this process even as root: it gives up the capabilities against them."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # linux/capability.h: _LINUX_CAPABILITY_VERSION_3; this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same of capabilities from 32 on
    override = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    for call in (libc.capget, libc.capset):
        if call(header, sets):
            raise OSError(ctypes.get_errno(), call.__name__)
        sets[0] &= ~override


def fill_disk(most: int) -> None:
    """The disk is full for every file of more than ``most`` bytes."""

    class FullStore(WritableLocalStore):
        def _write_temp(self, path: str, data: bytes, durable: bool) -> None:
            super()._write_temp(path, data[:most], durable)
            if len(data) > most:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    put(stores, "open_output", FullStore)


def skip_build() -> None:
    """The driver does nothing and reports success."""
    from shardfeed.pipeline import run_build

    put(run_build, "build_here", lambda *_: None)
    put(run_build, "_run_graph", lambda *_: None)


# ---- listings


def processes(count: int) -> None:
    """A pool of so many processes, however few images there are."""
    from shardfeed.pipeline import local
    from shardfeed.transforms.pool import pool

    put(pool, "MOST_PROCESSES", count)
    put(local, "IMAGES_PER_PROCESS", 1)
    put(local, "cores", lambda: count)


def forks() -> None:
    """Processes of the pool are forks: the builder has loaded clients of buckets, but not used them."""
    from shardfeed.transforms.pool import pool

    put(pool, "_CLIENTS", set())


def programs() -> None:
    """Processes of the pool are programs, as in a program that calls the library; no forks."""
    from shardfeed.transforms.pool import pool

    put(pool, "Fork", None)
    start = pool._Process.__init__
    put(pool._Process, "__init__", lambda self, _fork, on_end: start(self, False, on_end))


def no_memory() -> None:
    """No process of the pool has memory for an image; a process of its own has."""
    from shardfeed.transforms.images import process

    def failing(*_args: Any, **_kwargs: Any) -> Any:
        raise MemoryError

    put(process, "process_image", failing)


def end_isolated(times: int) -> None:
    """So many times, the program that starts a process per image is killed before it gets one."""
    from shardfeed.transforms.pool import program

    send, left = program.Program.send, iter(range(times))

    def killing(self: Any, message: Any) -> None:
        if "disposable" in self._boot and len(message) > 2 and next(left, None) is not None:  # an image
            self.kill()
            self.wait()
        send(self, message)

    put(program.Program, "send", killing)


def stop_at_hang() -> None:
    """Ctrl-C as soon as an image is in a codec for longer than a good one ever is."""
    from shardfeed.transforms.pool import pool

    longest, once = pool._Process.longest, iter([signal.SIGINT])

    def looking(self: Any) -> float:
        if (seconds := longest(self)) > 0.5:
            for what in once:
                os.kill(os.getpid(), what)
        return seconds

    put(pool._Process, "longest", looking)


def hang_at_once() -> None:
    """A hang is found at once; then Ctrl-C as soon as the image hangs in a process of its own."""
    from shardfeed.processes import descendants
    from shardfeed.transforms.pool import pool, program

    longest, send, receive = pool._Process.longest, program.Program.send, program.Program.recv
    put(pool._Process, "longest", lambda self: 1e6 if longest(self) > 0.5 else 0.0)
    hanging = threading.Event()

    def noting(self: Any, message: Any) -> None:
        send(self, message)
        if "disposable" in self._boot and isinstance(message[0], bytes) and message[0].endswith(b"#sleep"):
            hanging.set()

    def stopping(self: Any) -> Any:
        if "disposable" in self._boot and hanging.is_set():
            while not descendants(self.pid):
                os.sched_yield()
            hanging.clear()
            os.kill(os.getpid(), signal.SIGINT)
        return receive(self)

    put(program.Program, "send", noting)
    put(program.Program, "recv", stopping)


def note_encoders(log: Path) -> None:
    """Writes the id of this process to ``log``, then one of the encoding process for each image."""
    from shardfeed.transforms.pool import pool

    appender(log)(b"%d\n" % os.getpid())
    _note_images(log)
    noting = f"from tests.kit import hooks; from pathlib import Path; hooks._note_images(Path({str(log)!r})); "
    put(pool, "_BOOT", noting + pool._BOOT)


def _note_images(log: Path) -> None:
    write = appender(log)
    _before_images(lambda _number: write(b"%d\n" % os.getpid()))


def join_halfway() -> None:
    """A local build that joins another begins with the part in the middle.

    Otherwise its random run id chooses the part.
    """
    from shardfeed.pipeline import local

    put(local, "hash64", lambda *_: 1 << 63)


def at_part_of_process(number: int, act: Callable[[int], None]) -> None:
    """Something happens to a process of the pool, given by its id, at its part of this number."""
    from shardfeed.transforms.pool import pool

    begin, count = pool._Process.begin, iter(range(1 << 30))

    def acting(self: Any, *part: Any) -> Any:
        made = begin(self, *part)
        if next(count) == number:
            while not (self._ready or self.ended):
                os.sched_yield()
            act(self._child.pid)
        return made

    put(pool._Process, "begin", acting)


def interpreter(path: str) -> None:
    """Programs of ours are started with another interpreter; there are no forks."""
    programs()
    sys.executable = path


def broken_processes() -> None:
    """Processes of the pool are programs that end as soon as they are started."""
    from shardfeed.transforms.pool import pool

    programs()
    put(pool, "_BOOT", "raise SystemExit('no such module')")


def batches_of(refs: int) -> None:
    """Batches of so many references."""
    from shardfeed.transforms.inputs import listing

    put(listing, "BATCH_REFS", refs)


def reorder_listing(seed: int | None) -> None:
    """The input's folders and files come in another order: backwards, or shuffled by ``seed``."""
    list_section, sections = LocalSource.list, LocalSource.sections

    def reordered(items: list[Any]) -> list[Any]:
        if seed is None:
            return items[::-1]
        random.Random(seed).shuffle(items)
        return items

    put(LocalSource, "list", lambda self, section: iter(reordered(list(list_section(self, section)))))
    put(LocalSource, "sections", lambda self: reordered(sections(self)))


def before_encoding(act: Callable[[], object]) -> None:
    """Something happens to the input between its listing and its reading."""
    from shardfeed.transforms.encode import part_encoder

    begin, once = part_encoder.PartEncoder.begin, iter([act])

    def acting(self: Any, *args: Any) -> Any:
        for call in once:
            call()
        return begin(self, *args)

    put(part_encoder.PartEncoder, "begin", acting)


# ---- mutations: a build that loses or doubles something


def lose_part() -> None:
    """A finished part never reaches the next step, whoever finished it."""
    from shardfeed.transforms.encode import in_flight

    lost: list[tuple[str, int]] = []

    def losing(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def lose(*args: Any) -> Iterator[Any]:
            for result, kept in method(*args):
                if not lost and result.records:
                    lost.append((result.split, result.part))
                if (result.split, result.part) not in lost:
                    yield result, kept

        return lose

    for owner, name in (
        (in_flight.PartsInFlight, "submit"),
        (in_flight.PartsInFlight, "flush"),
    ):
        put(owner, name, losing(getattr(owner, name)))


def lose_and_double_images(lost: bytes, doubled: bytes) -> None:
    """One image is dropped without a word, another is written twice; an empty key is no image."""
    from shardfeed.transforms.encode import slices

    encode = slices.SliceEncoder._encode_one

    def meddling(self: Any, ref: Any, *more: Any) -> None:
        if ref.key != lost:
            encode(self, ref, *more)
        if ref.key == doubled:
            encode(self, ref, *more)

    put(slices.SliceEncoder, "_encode_one", meddling)


def lose_rejects() -> None:
    """Images that cannot be used are dropped instead of being written down."""
    from shardfeed.transforms.encode import slices

    add = slices.SliceEncoder._add

    def hiding(self: Any, ref: Any, data: Any, out: Any, prints: Any) -> None:
        rejects, key_sum = len(out.rejects), out.key_sum
        add(self, ref, data, out, prints)
        if len(out.rejects) > rejects:
            del out.rejects[rejects:]
            out.key_sum = key_sum

    put(slices.SliceEncoder, "_add", hiding)


# ---- what the process does to the file system


_CHANGING = {
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime", "os.chmod",
    "os.chown", "os.setxattr", "os.removexattr", "shutil.rmtree", "shutil.move",
}  # fmt: skip


def record_changes(log: Path) -> None:
    """Writes "what path" of every change to a file system to ``log``, by Python's audit events."""
    write = appender(log)

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], (str, bytes)) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            write(f"open {os.fsdecode(args[0])}\n".encode())
        elif event in _CHANGING:
            write(f"{event} {os.fsdecode(args[1] if event in ('os.link', 'os.rename') else args[0])}\n".encode())

    sys.addaudithook(hear)
