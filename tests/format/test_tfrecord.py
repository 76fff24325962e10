from __future__ import annotations

import io
import itertools
import struct
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardfeed.format.checksums import crc32c
from shardfeed.format.tfrecord import MAX_RECORD_BYTES, OVERHEAD, RecordError, frame, mask, scan

RECORDS = [b"first", b"", b"the third record"]
FILE = b"".join(map(frame, RECORDS))
STARTS = [0, 5 + OVERHEAD, 5 + 2 * OVERHEAD]


def scan_all(data: bytes) -> list[tuple[int, bytes]]:
    return list(scan(io.BytesIO(data)))


def damage(data: bytes) -> tuple[list[tuple[int, bytes]], RecordError | None]:
    """Records before the damage, and the damage."""
    records = list[tuple[int, bytes]]()
    try:
        records.extend(scan(io.BytesIO(data)))  # up to the one that raises
    except RecordError as error:
        return records, error
    return records, None


def test_a_frame_is_the_same_for_ever() -> None:
    assert frame(b"shardfeed").hex() == "090000000000000037f971397368617264666565641113ddd9"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(records=st.lists(st.binary(max_size=300), max_size=6))
def test_frames_are_byte_for_byte_what_tensorflow_writes(tmp_path: Path, records: list[bytes]) -> None:
    path = str(tmp_path / "file.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    assert b"".join(map(frame, records)) == Path(path).read_bytes()


@given(records=st.lists(st.binary(max_size=300), max_size=6))
def test_what_is_framed_is_scanned_with_its_offset(records: list[bytes]) -> None:
    frames = [frame(record) for record in records]
    offsets = [sum(map(len, frames[:i])) for i in range(len(frames))]
    assert scan_all(b"".join(frames)) == list(zip(offsets, records, strict=True))


def test_every_flipped_bit_of_every_byte_is_found_in_its_record() -> None:
    for at, bit in itertools.product(range(len(FILE)), range(8)):
        index = max(i for i, start in enumerate(STARTS) if start <= at)
        what = "crc of the length" if at - STARTS[index] < 12 else "crc of the data"
        data = bytearray(FILE)
        data[at] ^= 1 << bit
        before, error = damage(bytes(data))
        assert before == list(zip(STARTS, RECORDS, strict=True))[:index]
        assert error is not None
        assert (error.offset, error.index, error.what) == (STARTS[index], index, what)


def test_a_cut_is_found_unless_it_is_between_two_records() -> None:
    for size in range(len(FILE)):
        whole = [i for i, start in enumerate([*STARTS, len(FILE)]) if start <= size][-1]
        before, error = damage(FILE[:size])
        assert before == list(zip(STARTS, RECORDS, strict=True))[:whole]
        if size in STARTS:
            assert error is None
            continue
        assert error is not None
        within, data = size - STARTS[whole], len(RECORDS[whole]) + 4
        what, due, found = ("header is cut", 12, within) if within < 12 else ("data is cut", data, within - 12)
        assert (error.offset, error.index) == (STARTS[whole], whole)
        assert (error.what, error.expected, error.found) == (what, f"{due} bytes", f"{found} bytes")


@pytest.mark.parametrize("more", [b"\0", bytes(12), bytes(1000), b"x" * 100, FILE[:30]])
def test_what_is_appended_is_found_behind_the_last_record(more: bytes) -> None:
    before, error = damage(FILE + more)
    complete = [(len(FILE) + at, record) for at, record in damage(more)[0]]
    assert before == [*zip(STARTS, RECORDS, strict=True), *complete]
    assert error is not None
    assert error.index == 3 + len(complete)


def test_a_length_that_cannot_be_is_not_allocated() -> None:
    length = struct.pack("<Q", MAX_RECORD_BYTES + 1)
    header = length + struct.pack("<I", mask(crc32c(length)))
    _, error = damage(header + b"some data")
    assert error is not None
    assert (error.what, error.found) == ("length", f"{MAX_RECORD_BYTES + 1} bytes")


def test_an_error_says_where_what_and_both_values() -> None:
    data = bytearray(FILE)
    data[STARTS[2] + 12] ^= 1
    _, error = damage(bytes(data))
    assert str(error) == "record 2 at byte 37: crc of the data: expected a860309f, found c0a38cb7"


@given(data=st.binary(max_size=200))
def test_any_bytes_give_records_or_a_record_error(data: bytes) -> None:
    damage(data)
