"""The header of a mapped index: what it says comes back, and nothing else is taken for one."""

import pytest

from shardfeed.format.record_index import INDEX_HEADER_BYTES, IndexHeader, parse_header

_HEADER = IndexHeader("offsets", "0123456789abcdef" * 2, 100_000_000, 16, 0xDEADBEEF)


def test_the_bytes_are_fixed_and_the_header_comes_back_from_them() -> None:
    data = _HEADER.to_bytes()
    assert data.hex() == (
        "5346454544494458" "01000000" "0123456789abcdef0123456789abcdef" "00e1f50500000000" "1000000000000000" "efbeadde"
        "000000000000000000000000" "bda101bc"
    )  # fmt: skip
    assert len(data) == INDEX_HEADER_BYTES
    assert parse_header(data + b"a column", "offsets") == _HEADER


def test_a_changed_byte_is_found() -> None:
    for at in range(INDEX_HEADER_BYTES):
        data = bytearray(_HEADER.to_bytes())
        data[at] ^= 1
        with pytest.raises(ValueError, match=r"crc32c|begins with"):
            parse_header(bytes(data), "offsets")


def test_what_is_no_header_is_refused() -> None:
    with pytest.raises(ValueError, match="63 bytes, a header has 64"):
        parse_header(_HEADER.to_bytes()[:-1], "offsets")
    with pytest.raises(ValueError, match="an index of classes with"):
        parse_header(_HEADER.to_bytes(), "classes")


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.format.record_index.VERSION", 2)
    later = _HEADER.to_bytes()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 2, this shardfeed reads version 1"):
        parse_header(later, "offsets")
