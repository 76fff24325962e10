"""Rows of a table come back from their bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardfeed.transforms.metadata.row import Row, labels_of_row, pack_table_row, unpack_table_row

TEXTS = st.text(max_size=9)
ROWS = st.builds(
    Row,
    st.lists(TEXTS, max_size=3).map(tuple),
    TEXTS,
    TEXTS,
    st.lists(st.tuples(TEXTS, st.binary(max_size=30)), max_size=3).map(tuple),
)


@given(ROWS)
def test_a_row_comes_back(row: Row) -> None:
    packed = pack_table_row(row)

    assert unpack_table_row(packed) == row
    assert labels_of_row(packed) == row.labels
