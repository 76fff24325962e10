"""One part from references to records: order, rejects with their reasons, twins, memory, and the stop flag."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardfeed import storage, tfrecord
from shardfeed.errors import IncompleteError, UsageError
from shardfeed.example import decode_example
from shardfeed.hashing import MASK128, hash64, key_hash
from shardfeed.storage.base import ChecksumError, Stat, StorageError, UnreadableError
from shardfeed.storage.local import LocalSource, LocalStore
from transforms import encoding, machine
from transforms.elements import ImageRef, PartResult, Plan, SplitPlan, pack_ref
from transforms.encoding import PartEncoder, shown_key
from transforms.images.options import ImageOptions
from transforms.options import BuildOptions
from transforms.parts import read_sidecar
from transforms.run_state import RUN

OPTIONS = BuildOptions(image=ImageOptions(height=8, width=8))
PLAN = Plan("f", ("cat", "dog"), {"pillow": "12"}, 30, {"train": SplitPlan(1, 1, 30)})


@pytest.fixture(autouse=True)
def fresh_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    RUN.stop.clear()


def packed(refs: list[ImageRef]) -> list[bytes]:
    """References in the batches that they travel in."""
    return [pack_ref(ref) for ref in refs]


class _Folder:
    """An input folder and an output, and encoders between them."""

    def __init__(self, path: Path) -> None:
        self.root, self.store = path / "in", LocalStore(str(path / "out"))
        self._encoders: list[PartEncoder] = []

    def add(self, key: bytes, data: bytes | None = None) -> ImageRef:
        path = os.fsencode(self.root) + b"/" + key
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(_image(len(key)) if data is None else data)
        found = os.stat(path)
        return ImageRef(0, key, Stat(found.st_size, found.st_mtime_ns))

    def encoder(
        self,
        options: BuildOptions = OPTIONS,
        plan: Plan = PLAN,
        threads: int = 2,
        roots: int = 1,
        processes: int = 1,
        encoders: int = 0,
    ) -> PartEncoder:
        sources = [str(self.root), *(f"{self.root}{n}" for n in range(1, roots))]
        encoder = PartEncoder(
            sources=sources,
            output=self.store.url,
            plan=plan,
            options=options,
            threads=threads,
            processes=processes,
            encoders=encoders,
        )
        self._encoders.append(encoder)
        return encoder

    def encode(
        self, refs: list[ImageRef], options: BuildOptions = OPTIONS, plan: Plan = PLAN, threads: int = 2
    ) -> PartResult:
        encoder = self.encoder(options, plan, threads)
        (result,) = [*encoder.submit("train", 0, packed(refs)), *encoder.flush()]
        return result

    def examples(self, result: PartResult) -> list[dict[str, list[bytes] | list[int] | list[float]]]:
        name = f"_parts/f/{result.split}/{result.part:05d}-{result.crc32c:08x}-{result.bytes}"
        return [decode_example(data) for _, data in tfrecord.scan(io.BytesIO(self.store.read(name)))]

    def rejects(self, part: int = 0) -> list[tuple[str, str, str]]:
        sidecar = read_sidecar(self.store, "f", "train", part)
        assert sidecar is not None
        return list(sidecar.rejects)

    def close(self) -> None:
        for encoder in self._encoders:
            encoder.close()


@pytest.fixture(params=["disk", "bucket"])
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Folder]:
    """On the disk; as a «bucket», with threads that read and others that encode."""
    if request.param == "bucket":
        opened = {"open_source": storage.open_source, "open_store": storage.open_store}
        monkeypatch.setattr(encoding, "storage", SimpleNamespace(**opened, is_remote=lambda _url: True))
    folder = _Folder(tmp_path)
    yield folder
    folder.close()


def _image(seed: int, size: tuple[int, int] = (12, 9)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def _by_hash(refs: list[ImageRef], seed: int = 0) -> list[bytes]:
    return [key for _, key in sorted((hash64("part", seed, ref.key), ref.key) for ref in refs)]


@pytest.mark.parametrize("seed", [0, 5], ids=["seed 0", "seed 5"])
def test_records_lie_in_the_order_of_their_keys_hashes(folder: _Folder, seed: int) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(15)] + [folder.add(b"dog/%d.png" % i) for i in range(15)]

    result = folder.encode(refs, replace(OPTIONS, seed=seed))
    assert [example["key"] for example in folder.examples(result)] == [[key] for key in _by_hash(refs, seed)]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_neither_threads_nor_the_order_of_references_change_a_byte(folder: _Folder, threads: int) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(20)]
    first = folder.encode(refs, threads=2)
    for name in [name for name, _ in folder.store.list()]:
        folder.store.delete(name)

    assert folder.encode(refs[::-1], threads=threads) == first


def test_a_record_holds_the_columns_of_the_format(folder: _Folder) -> None:
    refs = [folder.add(b"dog/deep/1.png")]

    result = folder.encode(refs, replace(OPTIONS, image=ImageOptions(height=4, width=6, format="raw")))
    (example,) = folder.examples(result)
    assert {name: value for name, value in example.items() if name != "image"} == {
        "class": [1],
        "label": [b"dog"],
        "size": [4, 6],
        "key": [b"dog/deep/1.png"],
    }
    assert [len(value) for value in example["image"]] == [4 * 6 * 3]  # type: ignore[arg-type]


def test_the_result_adds_up(folder: _Folder) -> None:
    refs = [folder.add(b"cat/1.png"), folder.add(b"cat/2.png"), folder.add(b"dog/3.png"), folder.add(b"dog/4.png", b"")]

    result = folder.encode(refs)

    sidecar = read_sidecar(folder.store, "f", "train", 0)
    assert sidecar is not None
    assert (result.split, result.part, result.records, sum(sidecar.sizes)) == ("train", 0, 3, result.bytes)
    assert result.key_sum == sum(key_hash(ref.key) for ref in refs) & MASK128
    assert (result.rejected, result.class_counts, result.fixes) == ({"EMPTY": 1}, {"cat": 2, "dog": 1}, {})
    assert sidecar.versions == PLAN.versions


def test_statistics_are_exact_sums_over_stored_pixels(folder: _Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(9)]

    result = folder.encode(refs, replace(OPTIONS, image=ImageOptions(height=8, width=8, format="raw")))

    images = [np.frombuffer(example["image"][0], np.uint8) for example in folder.examples(result)]  # type: ignore[arg-type]
    pixels = np.stack(images).reshape(-1, 3).astype(int)
    assert result.stats == (len(pixels), tuple(pixels.sum(0)), tuple((pixels**2).sum(0)))


def test_only_a_sample_of_a_large_dataset_is_summed(folder: _Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(30)]
    monkeypatch.setattr(encoding, "STATS_IMAGES", 10)

    result = folder.encode(refs, plan=replace(PLAN, candidates=30))

    sampled = sum(hash64("stats", 0, ref.key) * 30 < 10 << 64 for ref in refs)
    assert 0 < sampled < 30
    assert result.stats is not None
    assert result.stats[0] == sampled * 64


def test_an_empty_file_is_rejected(folder: _Folder) -> None:
    folder.encode([folder.add(b"cat/1.png", b"")])

    assert folder.rejects() == [("cat/1.png", "EMPTY", "zero bytes")]


def test_a_file_above_64_mb_is_rejected_without_reading_it(folder: _Folder) -> None:
    ref = replace(folder.add(b"cat/1.png"), stat=Stat((64 << 20) + 1, 1))

    folder.encode([ref])
    assert folder.rejects() == [("cat/1.png", "TOO_LARGE", "67108865 bytes; at most 67108864")]


def test_a_name_that_is_not_utf8_is_rejected_and_shown_with_escapes(folder: _Folder) -> None:
    folder.encode([folder.add(b"cat/caf\xe9.png"), folder.add(b"dog/\\xe9.png")])

    assert folder.rejects() == [("cat/caf\\xe9.png", "NAME", "the file name is not UTF-8; rename it")]
    assert shown_key("käse/\\x.png".encode()) == "käse/\\x.png"


def test_a_file_that_changed_since_the_listing_is_rejected(folder: _Folder) -> None:
    refs = [folder.add(b"cat/grown.png"), folder.add(b"cat/gone.png"), folder.add(b"cat/touched.png")]
    with open(folder.root / "cat" / "grown.png", "ab") as file:
        file.write(b"x")
    (folder.root / "cat" / "gone.png").unlink()
    os.utime(folder.root / "cat" / "touched.png", ns=(1, 1))

    folder.encode(refs)
    assert sorted(folder.rejects()) == [
        ("cat/gone.png", "CHANGED", "cat/gone.png is gone since the listing"),
        ("cat/grown.png", "CHANGED", "cat/grown.png changed since the listing"),
        ("cat/touched.png", "CHANGED", "cat/touched.png changed since the listing"),
    ]


def test_bytes_that_are_not_the_listed_ones_are_rejected(folder: _Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        raise ChecksumError("crc32c 00000001 where 00000002 was listed, 3 times")

    ref = folder.add(b"cat/1.png")
    monkeypatch.setattr(LocalSource, "read", read)

    folder.encode([ref])
    assert folder.rejects() == [("cat/1.png", "CHECKSUM", "crc32c 00000001 where 00000002 was listed, 3 times")]


def test_rejects_lie_in_the_order_of_their_keys_hashes(folder: _Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i, b"") for i in range(25)]

    result = folder.encode(refs)
    assert [key.encode() for key, _, _ in folder.rejects()] == _by_hash(refs)
    assert (result.records, result.bytes, result.rejected) == (0, 0, {"EMPTY": 25})


@pytest.mark.parametrize("error", [StorageError("down"), UnreadableError("no permission")], ids=["store", "permission"])
def test_a_fault_of_the_store_is_not_the_images_fault(
    folder: _Folder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        raise error

    ref = folder.add(b"cat/1.png")
    monkeypatch.setattr(LocalSource, "read", read)

    with pytest.raises(type(error)):
        folder.encode([ref])
    assert list(folder.store.list()) == []


def test_the_same_key_in_two_roots_names_both(folder: _Folder) -> None:
    one = folder.add(b"cat/1.png")

    encoder = folder.encoder(roots=2)

    with pytest.raises(UsageError) as found:
        list(chain(encoder.submit("train", 0, packed([one, replace(one, root=1)])), encoder.flush()))
    assert str(found.value) == (
        f"cat/1.png is in two inputs: {folder.root} and {folder.root}1. A key is a record's name and must be unique: give one "
        "--input that holds both as folders, or rename, then rerun with --discard_incomplete."
    )
    assert list(folder.store.list()) == []


@pytest.mark.parametrize("folder", ["disk"], indirect=True)
def test_one_part_more_than_is_waited_for_is_in_flight_so_that_the_pool_never_idles(folder: _Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(6)]
    encoder = folder.encoder()

    yielded, most = [], 0
    for part in range(3):
        yielded += [result.part for result in encoder.submit("train", part, packed(refs[2 * part : 2 * part + 2]))]
        most = max(most, part + 1 - len(yielded))
    assert most == 1
    assert sorted(yielded + [result.part for result in encoder.flush()]) == [0, 1, 2]


def test_a_finished_part_is_not_done_again(folder: _Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(3)]
    first = folder.encode(refs)
    for ref in refs:
        os.unlink(os.fsencode(folder.root) + b"/" + ref.key)  # it could not be done again

    RUN.reset()  # another run
    assert folder.encode(refs) == first
    assert RUN.kept == 3


def test_a_stop_before_a_part_does_nothing(folder: _Folder) -> None:
    RUN.stop.set()

    with pytest.raises(IncompleteError, match="rerun the same command"):
        folder.encode([folder.add(b"cat/1.png")])
    assert list(folder.store.list()) == []


def test_a_stop_in_the_middle_of_a_part_never_commits_a_torn_part(
    folder: _Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(12)]
    original, seen = LocalSource.read, []

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        seen.append(key)
        if len(seen) == 8:
            RUN.stop.set()
        return original(self, key, stat)

    monkeypatch.setattr(LocalSource, "read", read)

    with pytest.raises(IncompleteError, match="stopped before the dataset was complete"):
        folder.encode(refs, threads=1)
    assert len(seen) == 8
    assert list(folder.store.list()) == []


def test_images_are_read_in_parallel(folder: _Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(20)]
    together, original = threading.Barrier(3), LocalSource.read

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        if together.n_waiting or not passed.is_set():
            together.wait(30)
            passed.set()
        return original(self, key, stat)

    passed = threading.Event()
    monkeypatch.setattr(LocalSource, "read", read)

    assert folder.encode(refs, threads=3).records == 20


@pytest.mark.parametrize("folder", ["bucket"], indirect=True)
def test_many_images_of_a_bucket_are_read_at_a_time_and_one_a_core_is_encoded(
    folder: _Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(96)]
    reading, encoding_now, most = threading.Barrier(8), 0, 0
    read_one, process = LocalSource.read, encoding.process_image

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        if not passed.is_set():
            reading.wait(30)
            passed.set()
        return read_one(self, key, stat)

    def process_image(*args: Any, **more: Any) -> Any:
        nonlocal encoding_now, most
        with lock:
            encoding_now += 1
            most = max(most, encoding_now)
        try:
            return process(*args, **more)
        finally:
            with lock:
                encoding_now -= 1

    passed, lock = threading.Event(), threading.Lock()
    monkeypatch.setattr(LocalSource, "read", read)
    monkeypatch.setattr(encoding, "process_image", process_image)
    encoder = folder.encoder(threads=8, processes=machine.cores())
    (result,) = [*encoder.submit("train", 0, packed(refs)), *encoder.flush()]
    assert (result.records, most) == (96, 1)


@pytest.mark.parametrize("folder", ["bucket"], indirect=True)
def test_what_is_read_and_not_yet_encoded_stays_within_its_share_of_the_memory(
    folder: _Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "SOURCE_BUDGET", 16_000)  # bytes; half of them for each of two processes
    refs = [folder.add(b"cat/%d.png" % i) for i in range(96)]
    held = most = 0
    read_one, process, lock = LocalSource.read, encoding.process_image, threading.Lock()

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        nonlocal held, most
        with lock:
            held += stat.size
            most = max(most, held)
        return read_one(self, key, stat)

    def process_image(data: bytes, *args: Any, **more: Any) -> Any:
        nonlocal held
        time.sleep(0.005)  # readers are far ahead of it
        with lock:
            held -= len(data)
        return process(data, *args, **more)

    monkeypatch.setattr(LocalSource, "read", read)
    monkeypatch.setattr(encoding, "process_image", process_image)
    encoder = folder.encoder(threads=8, processes=2)
    (result,) = [*encoder.submit("train", 0, packed(refs)), *encoder.flush()]
    assert result.records == 96
    assert 2_000 < most <= 8_000


@pytest.mark.parametrize("folder", ["bucket"], indirect=True)
def test_no_thread_is_left_and_nothing_is_encoded_after_a_stop(
    folder: _Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(64)]
    process, encoded = encoding.process_image, 0

    def process_image(*args: Any, **more: Any) -> Any:
        nonlocal encoded
        encoded += 1
        if encoded == 3:
            RUN.stop.set()
        return process(*args, **more)

    monkeypatch.setattr(encoding, "process_image", process_image)
    with pytest.raises(IncompleteError, match="rerun the same command"):
        encoder = folder.encoder(threads=8, encoders=1)
        list(chain(encoder.submit("train", 0, packed(refs)), encoder.flush()))
    folder.close()
    assert encoded == 3
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("encode")] == []


@pytest.mark.parametrize("images", [1, 96])
def test_images_larger_than_all_the_memory_for_them_are_encoded_one_after_the_other(
    folder: _Folder, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "SOURCE_BUDGET", 100)  # bytes
    refs = [folder.add(b"cat/%d.png" % i) for i in range(images)]
    assert folder.encode(refs, threads=8).records == images


def test_images_that_could_not_be_read_give_their_memory_back(folder: _Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "SOURCE_BUDGET", 100)
    read_one, fail = LocalSource.read, threading.Event()

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        if fail.is_set():
            raise StorageError("the store kept failing")
        return read_one(self, key, stat)

    monkeypatch.setattr(LocalSource, "read", read)
    refs = [folder.add(b"cat/%d.png" % i) for i in range(12)]
    encoder = folder.encoder()
    fail.set()
    with pytest.raises(StorageError, match="the store kept failing"):
        list(chain(encoder.submit("train", 0, packed(refs)), encoder.flush()))
    fail.clear()
    (result,) = [*encoder.submit("train", 1, packed(refs)), *encoder.flush()]
    assert result.records == 12


def test_threads_are_one_a_core_and_more_where_a_bucket_is_waited_for() -> None:
    cores = len(os.sched_getaffinity(0))

    assert machine.default_threads(["/in", "/more"]) == cores
    assert machine.default_threads(["/in", "gs://b"]) == max(cores, 8)


def test_a_slice_spreads_a_part_over_the_threads_and_is_bounded_in_images_and_in_bytes() -> None:
    def sizes(*mib: int, threads: int = 2) -> list[list[int]]:
        refs = [ImageRef(0, b"k", Stat(size << 20, 0)) for size in mib]
        return [[ref.stat.size >> 20 for ref in piece] for piece in encoding._slices(refs, threads, 8 << 20)]

    assert [len(piece) for piece in sizes(*[0] * 9)] == [4, 4, 1]
    assert [len(piece) for piece in sizes(*[0] * 48)] == [12, 12, 12, 12]
    assert [len(piece) for piece in sizes(*[0] * 48, threads=8)] == [4] * 12
    assert [len(piece) for piece in sizes(*[0] * 300)] == [16] * 18 + [12]
    assert sizes(3, 3, 3, 3) == [[3, 3, 3], [3]]
    assert sizes(8, 1, 64, 1) == [[8], [1, 64], [1]]
    assert sizes() == []


def test_details_of_rejects_are_short_and_printable(folder: _Folder) -> None:
    folder.encode([folder.add(b"cat/1.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)])

    ((key, _, detail),) = folder.rejects()
    assert key == "cat/1.png"
    assert detail.isprintable()
    assert len(detail) <= 200
    assert json.loads(json.dumps(detail)) == detail
