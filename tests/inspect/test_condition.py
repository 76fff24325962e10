"""Conditions of ``find --where`` on made-up rows: what they mean, and what is none."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from shardfeed.errors import UsageError
from shardfeed.format.columns import Column
from shardfeed.format.record_table import schema
from shardfeed.inspection.condition import Condition

FILE = "train-00001-of-00003.tfrecord"
FIRST = 100  # number of the first row
ROWS = [
    {"key": "a/1.jpg", "label": "a", "class": 0, "width": 8, "crc32c": None, "fixes": [], "hash": None},
    {"key": "a/2.jpg", "label": "a", "class": 0, "width": 12, "crc32c": 0, "fixes": ["orientation"], "hash": 0},
    {"key": "b/1.jpg", "label": 'it\'s "b"', "class": 1, "width": 400, "crc32c": 2**32 - 1, "fixes": ["alpha", "größe"],
     "hash": 2**64 - 1},
]  # fmt: skip


def matches(where: str) -> list[int]:
    """Numbers of the rows that fulfil ``where``, less ``FIRST``."""
    missing = {"offset": 0, "bytes": 9, "height": 8, "format": "jpeg", "root": 0, "source_bytes": 9, "version": 2**62}
    batch = pa.RecordBatch.from_pylist([missing | row for row in ROWS], schema())
    return [number - FIRST for number in Condition(where).matches("train", FILE, FIRST, batch)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("label = 'a' and width > 8", [1]),
        ("1", [0, 1, 2]),
        ("0", []),
        ("null", []),
        ("width > '8'", [1, 2]),  # compared as numbers
        ("records.width > 8", [1, 2]),
        ("WIDTH > 8 -- a comment", [1, 2]),
        ("/* it's \"one\" */ width > 8", [1, 2]),
        ("\"width\" > 8 and [width] > 8 and `width` > 8", [1, 2]),
        ("label = 'it''s \"b\"'", [2]),
        ("key like 'A/%' or key glob 'b/*'", [0, 1, 2]),
        ("split = 'train' and file = 'train-00001-of-00003.tfrecord' and number >= 101", [1, 2]),
        ("crc32c = 4294967295", [2]),
        ("crc32c is null", [0]),
        ("hash = 'ffffffffffffffff'", [2]),
        ("hash = '0000000000000000'", [1]),
        ("version = 4611686018427387904", [0, 1, 2]),
        ("fixes = '[]'", [0]),
        ("fixes like '%größe%'", [2]),
        ("json_array_length(fixes) = 2", [2]),
        ("exists (select 1 from json_each(fixes) where value in ('alpha', 'orientation'))", [1, 2]),
        ("(select count(*) from json_tree(fixes)) > 2", [2]),
        ("width / 0 is null", [0, 1, 2]),
    ],
)  # fmt: skip
def test_a_condition_is_sqlites(where: str, expected: list[int]) -> None:
    assert matches(where) == expected


@pytest.mark.parametrize(
    "where",
    [
        "", " ", "-- nothing", "width >", "(width > 8", "width > 8)", "label = 'a", 'label = "a', "width = $1", "foo(width)",
        # more than one expression, or none
        "1) or (1", "1) or number in (1", "1) --", "1) /*", "1 /*", "1 then 1 end /*", "0 then 1 when 1", "1 then 2", "1, 2",
        "1; drop table records", "select 1", "1 order by 1", "1 limit 1", "1 union select 1", "1) union select (1",
        # about more than one record
        "width = (select max(width) from records)", "width = (select max(width))", "max(width) > 1", "count(*)",
        "row_number() over () = 1",
        # what no condition needs
        "(select count(*) from sqlite_master)", "exists (select 1 from pragma_table_info('records'))",
        "(with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n)",
        "load_extension('x')", "json_extract(key, '$.a')", "raise(ignore)", "\udcff",
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_not_an_expression_on_one_record_is_refused(where: str) -> None:
    with pytest.raises(UsageError) as refused:
        matches(where)
    said = str(refused.value)
    assert said.startswith("--where ")
    assert said.endswith(
        ". Expected an SQL expression on one record, for example label = 'skirt' and width > 400. To count, group or compare "
        "records, ask another SQL engine, such as DuckDB, about the tables of the dataset."
    )


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("widht > 8", "no column widht; did you mean width? The columns"),
        ("records.Widht > 8", "no column records.Widht; did you mean width? The columns"),
        ('"widht" > 8', "no column widht; did you mean width? The columns"),  # SQLite alone takes it for a text
        ('label = "a"', "no column a. The columns"),
        ('label = "it\'s ""b`"""', 'no column it\'s "b`". The columns'),
        ("label = a", "no column a. The columns"),
    ],
)
def test_an_unknown_column_is_named_with_all_and_the_nearest(where: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        matches(where)
    name = said.removeprefix("no column ").partition(";")[0].partition(". The")[0]
    assert str(refused.value) == (
        f"--where {where}: {said} are split, file, number, key, label, class, offset, bytes, height, width, format, root, "
        f"source_bytes, version, crc32c, fixes, hash, duplicate_group. A text stands in single quotes: '{name}'."
    )


@pytest.mark.parametrize("where", ["label = 'a'", "records.label = 'a'"])
@pytest.mark.parametrize(("kind", "near"), [("multi", "; did you mean labels?"), ("none", ".")])
def test_without_one_label_per_record_none_can_be_asked_for(where: str, kind: str, near: str) -> None:
    with pytest.raises(UsageError) as refused:
        Condition(where, kind)
    assert str(refused.value).startswith(
        f"--where {where}: no column {where.partition(' ')[0]}{near} The columns are split, file, number, key, offset, "
    )


def test_one_of_several_labels() -> None:
    labels: list[dict[str, object]] = [{"classes": [], "labels": []}, {"classes": [0, 2], "labels": ["hat", "blue"]}]
    missing = {"label": None, "class": None, "offset": 0, "bytes": 9, "height": 8, "format": "jpeg", "root": 0}
    rows = [row | missing | {"source_bytes": 9, "version": 1} | more for row, more in zip(ROWS, labels, strict=False)]
    batch = pa.RecordBatch.from_pylist(rows, schema(label_kind="multi"))
    for where in (
        "exists (select 1 from json_each(labels) where value = 'hat')",
        "exists (select 1 from json_each(classes) where value = 2)",
        """labels like '%"hat"%'""",
    ):
        assert Condition(where, "multi").matches("train", FILE, 0, batch) == [1]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("age > 9", [1]),
        ("good and price < 0.5", [0]),
        ("blob = '00ff'", [0]),
        ("json_array_length(words) = 2", [1]),
        ("exists (select 1 from json_each(near) where value > 1)", [1]),
        ("json_extract(near, '$[0]') is null", [0]),
        ("`a \"b\"` = 'x'", [0, 1]),
    ],
)
def test_the_columns_of_a_metadata_table_can_be_named(where: str, expected: list[int]) -> None:
    columns = (
        Column('a "b"', "string"), Column("age", "int64"), Column("blob", "bytes"), Column("good", "bool"),
        Column("price", "float"), Column("words", "string", (None,)), Column("near", "float", (None,)),
    )  # fmt: skip
    extra = [
        {'a "b"': "x", "age": 9, "blob": b"\x00\xff", "good": True, "price": 0.25, "words": [], "near": [float("nan")]},
        {
            'a "b"': "x",
            "age": 10,
            "blob": b"",
            "good": False,
            "price": 0.75,
            "words": ["a", "b"],
            "near": [1.5, float("inf")],
        },
    ]
    missing = {"offset": 0, "bytes": 9, "height": 8, "format": "jpeg", "root": 0, "source_bytes": 9, "version": 1}
    rows = [missing | row | more for row, more in zip(ROWS, extra, strict=False)]
    batch = pa.RecordBatch.from_pylist(rows, schema(columns))
    assert Condition(where, columns=columns).matches("train", FILE, 0, batch) == expected


def test_a_condition_may_be_forgotten_in_another_thread() -> None:
    held = [Condition("1")]
    thread = threading.Thread(target=held.clear)  # as the garbage collector does, in whatever thread it runs
    thread.start()
    thread.join()
