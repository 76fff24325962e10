from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format.checksums import crc32c, crc32c_file, crc32c_path, to_hex


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
    ids=["empty", "the check value", "32 zeros", "32 ones", "ascending", "descending"],
)
def test_the_crc_is_castagnolis_as_in_rfc_3720(data: bytes, value: int) -> None:
    assert crc32c(data) == value
    assert crc32c(memoryview(data)) == value


@given(first=st.binary(), second=st.binary())
def test_a_crc_can_be_continued(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_file_is_summed_whole_and_from_where_it_stands(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    (tmp_path / "file").write_bytes(data)
    assert crc32c_path(tmp_path / "file") == (size, crc32c(data))
    file = io.BytesIO(b"skipped" + data)
    file.seek(7)
    assert crc32c_file(file) == (size, crc32c(data))


@pytest.mark.parametrize(("crc", "text"), [(0, "00000000"), (0xE3069283, "e3069283"), (0xFFFFFFFF, "ffffffff")])
def test_a_crc_is_shown_as_eight_hex_digits(crc: int, text: str) -> None:
    assert to_hex(crc) == text
