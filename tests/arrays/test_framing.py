"""Blocks taken apart at once: as a scan does it, record by record, damage included."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.arrays import framing
from shardfeed.arrays.framing import split
from shardfeed.format.tfrecord import HEADER_BYTES, RecordError, frame
from tests.format.test_tfrecord import FILE, damage, scan_all


@given(records=st.lists(st.binary(max_size=300), max_size=6))
def test_any_block_is_split_as_it_is_scanned(records: list[bytes]) -> None:
    block = b"".join(map(frame, records))
    starts, stops = split(block)
    spans = [(at + HEADER_BYTES, at + HEADER_BYTES + len(data)) for at, data in scan_all(block)]
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == spans


def test_a_block_in_order_is_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "scan", lambda file: pytest.fail("scanned"))
    block = b"".join(frame(bytes(range(256)) * size) for size in range(70))

    starts, stops = split(block)

    assert (stops - starts).tolist() == [256 * size for size in range(70)]


def test_a_flipped_bit_in_a_block_is_the_damage_that_a_scan_finds() -> None:
    for at, bit in itertools.product(range(len(FILE)), range(8)):
        data = bytearray(FILE)
        data[at] ^= 1 << bit
        assert split_damage(bytes(data)) == scan_damage(bytes(data)) != ""


@given(data=st.binary(max_size=200))
def test_any_bytes_are_split_or_refused_as_a_scan_does(data: bytes) -> None:
    for block in (data, FILE + data, FILE[: len(data)]):
        assert split_damage(block) == scan_damage(block)


def split_damage(block: bytes) -> str:
    try:
        split(block)
    except RecordError as error:
        return str(error)
    return ""


def scan_damage(block: bytes) -> str:
    return str(damage(block)[1] or "")
