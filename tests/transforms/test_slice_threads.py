"""Which threads read and which encode, how much memory they share, and that they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from shardfeed.errors import IncompleteError
from shardfeed.runtime import cores
from shardfeed.storage import Stat, StorageError
from shardfeed.transforms.elements import pack_ref, unpack_keys
from shardfeed.transforms.encode import slices, threads
from shardfeed.transforms.encode.slices import Slice
from shardfeed.transforms.images import decode
from shardfeed.transforms.images import process as images
from shardfeed.transforms.sources.local import LocalSource
from tests.transforms.conftest import Folder, encode_part


def _count_callers(function: Callable[..., Any], seconds: float = 0) -> tuple[Callable[..., Any], list[int]]:
    """``function``, slowed down, and a list that gets how many callers were in it at each call."""
    inside, counts, lock = 0, list[int](), threading.Lock()

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal inside
        with lock:
            inside += 1
            counts.append(inside)
        try:
            time.sleep(seconds)
            return function(*args, **more)
        finally:
            with lock:
                inside -= 1

    return counted, counts


def _read_together(readers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first images are read when all ``readers`` have begun."""
    together, passed, read_one = threading.Barrier(readers), threading.Event(), LocalSource.read

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        if not passed.is_set():
            together.wait(30)
            passed.set()
        return read_one(self, key, stat)

    monkeypatch.setattr(LocalSource, "read", read)


def test_threads_are_one_a_core_and_more_where_a_bucket_is_waited_for() -> None:
    assert threads.default_threads(["/in", "/more"]) == cores()
    assert threads.default_threads(["/in", "gs://b"]) == max(cores(), 8)


def test_images_are_read_in_parallel(either: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [either.add(b"cat/%d.png" % i) for i in range(20)]
    _read_together(3, monkeypatch)

    assert either.encode(refs, threads=3).records == 20


def test_one_thread_makes_one_part_at_a_time_also_after_one_that_failed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [pack_ref(folder.add(b"cat/%d.png" % i)) for i in range(24)]
    encoder, read_one, merge = folder.encoder(threads=1), LocalSource.read, Slice.merge
    seen: list[bytes] = []
    failed: list[Slice] = []

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        seen.append(key)
        return read_one(self, key, stat)

    def merge_or_fail(self: Slice, other: Slice) -> None:
        if not failed:
            failed.append(other)
            raise ValueError("the thread of the first part to be made fails")
        merge(self, other)

    monkeypatch.setattr(slices, "_SLICE_OF_ONE_THREAD", 4)
    monkeypatch.setattr(LocalSource, "read", read)
    monkeypatch.setattr(Slice, "merge", merge_or_fail)
    made = [encoder.begin("train", part, refs[8 * part : 8 * part + 8]) for part in range(3)]

    errors = [part for part, one in enumerate(made) if one.exception(30) is not None]
    assert len(errors) == len(failed) == 1
    number_of = {key: number for number, ref in enumerate(refs) for key, _, _ in unpack_keys(ref)}
    in_turn = [(part, len(list(keys))) for part, keys in groupby(seen, lambda key: number_of[key] // 8)]
    assert in_turn[0] == (errors[0], 4)
    assert sorted(in_turn[1:]) == [(part, 8) for part in range(3) if part not in errors]


def test_many_images_of_a_bucket_are_read_at_a_time_and_one_a_core_is_encoded(
    bucket: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [bucket.add(b"cat/%d.png" % i) for i in range(96)]
    _read_together(8, monkeypatch)
    process_image, encoding = _count_callers(images.process_image)
    monkeypatch.setattr(images, "process_image", process_image)

    assert bucket.encode(refs, threads=8, processes=cores()).records == 96
    assert encoding == [1] * 96


def test_what_is_read_and_not_yet_encoded_stays_within_its_share_of_the_memory(
    bucket: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SOURCE_BUDGET", 16_000)  # bytes; half of them for each of two processes
    refs = [bucket.add(b"cat/%d.png" % i) for i in range(96)]
    held = most = 0
    read_one, process, lock = LocalSource.read, images.process_image, threading.Lock()

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

    def cut_slices(refs: Any, threads: int, most_bytes: int) -> Any:
        assert most_bytes == 8_000 // 16  # a slice per thread is read while another one waits
        return cut(refs, threads, most_bytes)

    cut = slices.cut_slices
    monkeypatch.setattr(slices, "cut_slices", cut_slices)
    monkeypatch.setattr(LocalSource, "read", read)
    monkeypatch.setattr(images, "process_image", process_image)
    assert bucket.encode(refs, threads=8, processes=2).records == 96
    assert 2_000 < most <= 8_000


def test_images_larger_than_all_the_memory_for_them_are_encoded_one_after_the_other(
    either: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SOURCE_BUDGET", 100)  # bytes
    refs = [either.add(b"cat/%d.png" % i) for i in range(24)]
    assert either.encode(refs, threads=8).records == 24


def test_pixels_above_all_the_memory_for_them_are_decoded_one_after_the_other(
    either: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "PIXEL_BUDGET", 100)  # bytes
    refs = [either.add(b"cat/%d.png" % i) for i in range(24)]
    load_other, decoding = _count_callers(decode.load_other, seconds=0.002)  # others would come in
    monkeypatch.setattr(decode, "load_other", load_other)

    assert either.encode(refs, threads=8).records == 24
    assert decoding == [1] * 24


def test_images_that_could_not_be_read_give_their_memory_back(either: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SOURCE_BUDGET", 100)
    read_one, fail = LocalSource.read, threading.Event()

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        if fail.is_set():
            raise StorageError("the store kept failing")
        return read_one(self, key, stat)

    monkeypatch.setattr(LocalSource, "read", read)
    refs = [either.add(b"cat/%d.png" % i) for i in range(12)]
    encoder = either.encoder()
    fail.set()
    with pytest.raises(StorageError, match="the store kept failing"):
        encode_part(encoder, refs)
    fail.clear()
    assert encode_part(encoder, refs, part=1).records == 12


def test_no_thread_is_left_and_nothing_is_encoded_after_a_stop(bucket: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [bucket.add(b"cat/%d.png" % i) for i in range(64)]
    process, encoded = images.process_image, 0

    def process_image(*args: Any, **more: Any) -> Any:
        nonlocal encoded
        encoded += 1
        if encoded == 3:
            bucket.run.stop.set()
        return process(*args, **more)

    monkeypatch.setattr(images, "process_image", process_image)
    with pytest.raises(IncompleteError, match="rerun the same command"):
        bucket.encode(refs, threads=8, encoders=1)
    bucket.close()
    assert encoded == 3
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("encode")] == []
