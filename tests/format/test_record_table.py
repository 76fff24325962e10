from __future__ import annotations

import io
import struct
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.format.record_table import ROW_GROUP, TableWriter, batch_digest, read_batches, schema, table_value

ROW: dict[str, Any] = {
    "key": "größe/1.jpg",
    "label": "größe",
    "class": 3,
    "offset": 2**40,
    "bytes": 27_000,
    "height": 224,
    "width": 320,
    "format": "jpeg",
    "root": 1,
    "source_bytes": 91_000,
    "version": 1_760_000_000_000_000_000,
    "crc32c": 2**32 - 1,
    "fixes": ["exif_orientation", "upscaled"],
    "hash": 2**64 - 1,
    "duplicate_group": 9,
}
BARE: dict[str, Any] = ROW | {"key": "a", "crc32c": None, "fixes": [], "hash": None, "duplicate_group": None}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema())


def written(*batches: pa.RecordBatch) -> tuple[bytes, TableWriter]:
    table = TableWriter()
    for each in batches:
        table.add(each)
    return table.finish(), table


def test_the_digest_of_a_row_is_the_same_for_ever() -> None:
    def text(value: str) -> bytes:
        return struct.pack("<I", len(value.encode())) + value.encode()

    packed = struct.pack(
        "<qqiiiiqqIQiB", 2**40, 27_000, 3, 224, 320, 1, 91_000, 1_760_000_000_000_000_000, 2**32 - 1, 2**64 - 1, 9, 7
    )
    packed += text("größe/1.jpg") + text("größe") + text("jpeg")
    packed += struct.pack("<I", 2) + text("exif_orientation") + text("upscaled")
    expected = int.from_bytes(blake2b(bytes(8) + packed, digest_size=16, person=b"row").digest(), "big")

    assert batch_digest(batch(ROW)) == expected == 238497881001834109681776569996803175440


def test_what_is_written_is_read() -> None:
    rows = [ROW, BARE, ROW | {"key": ""}]
    data, table = written(batch(*rows[:2]), batch(*rows[2:]))

    assert [row for each in read_batches(io.BytesIO(data)) for row in each.to_pylist()] == rows
    assert table_value(io.BytesIO(data)) == (table.rows, table.digest) == (3, batch_digest(batch(*rows)))
    assert pq.read_table(io.BytesIO(data)).schema.equals(schema())


def test_the_digest_depends_on_neither_order_nor_batches() -> None:
    rows = [ROW | {"key": str(number), "crc32c": (None, number)[number % 2]} for number in range(50)]
    whole = batch(*rows)

    assert batch_digest(batch(*rows[::-1])) == batch_digest(whole)
    assert (batch_digest(whole.slice(0, 7)) + batch_digest(whole.slice(7))) % 2**128 == batch_digest(whole)


CHANGED = {
    "key": "b", "label": "x", "class": 4, "offset": 1, "bytes": 1, "height": 1, "width": 1, "format": "png", "root": 0,
    "source_bytes": 1, "version": 1, "crc32c": 0, "fixes": ["upscaled"], "hash": 0, "duplicate_group": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", schema().names)
def test_every_column_is_in_the_digest_and_a_null_is_no_zero(name: str) -> None:
    assert batch_digest(batch(BARE | {name: CHANGED[name]})) != batch_digest(batch(BARE))


@settings(max_examples=30)
@given(st.lists(st.text(max_size=3), max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_texts_do_not_run_into_each_other(fixes: list[str], key: str, label: str) -> None:
    row = BARE | {"fixes": fixes, "key": key, "label": label}
    moved = BARE | {"fixes": fixes, "key": key + label, "label": ""}
    joined = BARE | {"fixes": ["".join(fixes)], "key": key, "label": label}

    assert (batch_digest(batch(row)) == batch_digest(batch(moved))) == (row == moved)
    assert (batch_digest(batch(row)) == batch_digest(batch(joined))) == (row == joined)


def test_a_row_costs_at_most_60_bytes_and_its_key() -> None:
    """Of what real datasets have: hashes that do not shrink, all columns filled, 1,000 classes."""
    rows = [
        ROW
        | {
            "key": f"n{number * 7919 % 10**7:08}/{blake2b(number.to_bytes(4, 'little'), digest_size=16).hexdigest()}.JPEG",
            "class": number * 31 % 1000,
            "label": f"n{number * 31 % 1000:08}",
            "offset": 28_000 * number + number * number % 9973,
            "bytes": 20_000 + number * 7919 % 16_000,
            "width": 224 + number * 13 % 200,
            "source_bytes": 20_000 + number * 104_729 % 400_000,
            "version": 1_760_000_000_000_000_000 + number * 982_451_653 % 10**16,
            "crc32c": number * 2_654_435_761 % 2**32,
            "hash": number * 0x9E3779B97F4A7C15 % 2**64,
            "fixes": (["exif_orientation"], [])[number % 5 > 0],
        }
        for number in range(10_000)
    ]
    data, _ = written(batch(*rows))

    assert len(data) <= 60 * len(rows) + sum(len(row["key"]) for row in rows)


def test_a_row_group_has_at_most_65_536_rows() -> None:
    rows = batch(*[BARE] * 1000)
    data, _ = written(pa.Table.from_batches([rows] * 66).combine_chunks().to_batches()[0])

    table = pq.ParquetFile(io.BytesIO(data))
    assert [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)] == [ROW_GROUP, 464]
    assert [len(each) for each in read_batches(io.BytesIO(data))] == [ROW_GROUP, 464]
