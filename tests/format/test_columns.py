"""Values of a table's columns as features, as Arrow's types and as the manifest's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format.columns import RESERVED, TYPES, Column, column_of_arrow, decode_features
from shardfeed.inspection.condition import column_types

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=9),
    "string": st.text(max_size=9),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
}
COLUMNS = st.builds(Column, st.just("a"), st.sampled_from(TYPES), st.sampled_from([(), (None,), (2,)]))


@given(COLUMNS, st.data())
def test_a_value_comes_back_from_its_feature_which_is_tensorflows(column: Column, data: st.DataObject) -> None:
    one = VALUES[column.type]
    size: dict[str, Any] = {"min_size": column.shape[0] or 0, "max_size": column.shape[0] or 4} if column.shape else {}
    value = data.draw(st.lists(one, **size) if column.shape else one)

    feature = column.encode(value)

    assert column.value(decode_features(feature)["a"]) == value
    example = tf.train.Example()
    items = value if column.shape else [value]
    kinds = {"bytes": "bytes_list", "string": "bytes_list", "float": "float_list"}
    stored = [
        item.encode() if isinstance(item, str) else int(item) if isinstance(item, bool) else item for item in items
    ]
    target = getattr(example.features.feature["a"], kinds.get(column.type, "int64_list"))
    target.SetInParent()
    target.value.extend(stored)
    assert feature == example.features.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Column("a", "int64"), 1.5, "1.5 where int64 is expected"),
        (Column("a", "int64"), True, "True where int64 is expected"),
        (Column("a", "string"), None, "None where string is expected"),
        (Column("a", "float"), 1e300, "1e+300, more than a 32-bit float can hold"),
        (Column("a", "int64", (2,)), [1], "1 values where a list of 2 values is expected"),
        (Column("a", "int64", (None,)), 1, "1 where a list of values is expected"),
        (Column("a", "int64", (None,)), [None], "None where int64 is expected"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_an_error(column: Column, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as found:
        column.encode(value)
    assert str(found.value) == message


@given(COLUMNS)
def test_a_column_comes_back_from_json_and_from_its_type_in_arrow(column: Column) -> None:
    assert Column.from_raw(json.loads(json.dumps(column.to_raw()))) == column
    any_length = Column("a", column.type, (None,) if column.shape else ())
    assert column_of_arrow("a", column.arrow_type()) == any_length


@pytest.mark.parametrize(
    "wrong",
    [
        ("image", "int64"),
        ("Width", "int64"),
        ("", "int64"),
        ("a", "date"),
        ("a", "int64", (0,)),
        ("a", "int64", (1, 2)),
    ],
)
def test_a_column_that_cannot_be_is_an_error(wrong: Any) -> None:
    with pytest.raises(ValueError):
        Column(*wrong)


@pytest.mark.parametrize("label_kind", ["single", "multi"])
def test_no_column_has_the_name_of_one_that_a_condition_knows(label_kind: str) -> None:
    assert column_types(label_kind, ()).keys() <= RESERVED
