"""Tables of every format give the same rows; and what cannot be read says why, and where."""

from __future__ import annotations

import gzip
import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from shardfeed.errors import UsageError
from shardfeed.format.columns import decode_features
from shardfeed.pipeline.config.table import TableFlags, open_table
from shardfeed.transforms.metadata.row import unpack_table_row
from shardfeed.transforms.metadata.table import key_of, read_rows
from tests.kit.metadata import Rows, write_table

ROWS: Rows = [
    {"file_name": "a/1.jpg", "species": "käfer", "age": 3, "weight_g": 1.5, "tame": True, "site": "x", "fold": 0},
    {"file_name": "./a/2.jpg", "species": "007", "age": None, "weight_g": -2.25, "tame": False, "site": "", "fold": 1},
    {
        "file_name": "/pics/b/3.jpg",
        "species": "käfer",
        "age": 5,
        "weight_g": 0.1,
        "tame": True,
        "site": "y,\n",
        "fold": 2,
    },
]
LISTS: Rows = [
    {"file_name": "1", "tags": ["a", "b"], "sizes": [1, 2], "box": [0.5, 1.0]},
    {"file_name": "2", "tags": [], "sizes": [], "box": [2.0, 3.0]},
]
FLAGS = {
    "label_column": "species",
    "columns": "age=-1,weight_g,tame,site,fold:string",
    "split": "fold",
    "group": "site",
}


def opened(path: Path, **flags: str | None) -> Any:
    found = open_table(TableFlags([str(path)], **flags), label_from="table" if "label_column" in flags else "folders")
    assert found is not None
    return found


def rows(path: Path, **flags: str | None) -> list[tuple[int, bytes, bytes]]:
    return list(read_rows(opened(path, **flags)))


@pytest.mark.parametrize(("name", "between"), [("t.tsv", "\t"), ("my.tsv_export.csv", ",")])
def test_the_suffix_says_what_stands_between_the_cells(name: str, between: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(f"file_name{between}species\n1.jpg{between}käfer\n")
    ((_, _, row),) = rows(path, label_column="species")
    assert unpack_table_row(row).labels == ("käfer",)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.parquet"])
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    expected = rows(write_table(tmp_path / "expected.csv", ROWS), **FLAGS)
    first = unpack_table_row(expected[0][2])
    assert (first.labels, first.split, first.group, [column for column, _ in first.features]) == (
        ("käfer",), "0", "x", ["age", "fold", "site", "tame", "weight_g"],
    )  # fmt: skip

    found = rows(write_table(tmp_path / name, ROWS), **FLAGS)

    first_row = 2 if "csv" in name else 1
    assert [number for number, _, _ in found] == [first_row, first_row + 1, first_row + 2]
    assert [row[1:] for row in found] == [row[1:] for row in expected]


def test_neither_row_groups_nor_pandas_categories_nor_narrow_types_change_a_row(tmp_path: Path) -> None:
    expected = rows(write_table(tmp_path / "t.parquet", ROWS), **FLAGS)
    table = pq.read_table(tmp_path / "t.parquet")
    odd = table.set_column(1, "species", table["species"].dictionary_encode())
    odd = odd.set_column(2, "age", table["age"].cast(pa.int8())).set_column(
        5, "site", table["site"].cast(pa.large_string())
    )
    pq.write_table(odd, tmp_path / "odd.parquet", row_group_size=1, compression="zstd")

    assert rows(tmp_path / "odd.parquet", **FLAGS) == expected


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_lists_are_labels_and_columns(name: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / name, LISTS)

    table = opened(path, label_column="tags", columns="sizes,box:float[2]")

    assert table.many_labels
    assert [(column.name, column.shape) for column in table.columns] == [("box", (2,)), ("sizes", (None,))]
    assert [unpack_table_row(row).labels for _, _, row in read_rows(table)] == [("a", "b"), ()]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_byte_order_mark_is_no_part_of_a_name(name: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / name, ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert [key for _, key, _ in rows(path, label_column="species")] == [b"a/1.jpg", b"a/2.jpg", b"/pics/b/3.jpg"]


@pytest.mark.parametrize(
    ("text", "key"),
    [("a/1.jpg", "a/1.jpg"), ("./a/1.jpg", "a/1.jpg"), ("/p/a/1.jpg", "a/1.jpg"), ("gs://b/x/ä.jpg", "ä.jpg")],
)
def test_a_key_is_a_path_below_the_root_or_an_address_under_one(text: str, key: str, tmp_path: Path) -> None:
    table = opened(write_table(tmp_path / "t.csv", ROWS), label_column="species")
    assert key_of(text, replace(table, roots=("/p", "gs://b/x"))) == key.encode()
    assert key_of("7", replace(table, key_format="train/{}.jpg")) == b"train/7.jpg"


File = tuple[str, bytes]


def csv(text: str) -> File:
    return "t.csv", text.encode()


def jsonl(text: str) -> File:
    return "t.jsonl", text.encode()


def parquet(**columns: pa.Array) -> File:
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    return "t.parquet", data.getvalue()


LABEL = {"label_column": "label"}
BAD: dict[str, tuple[File | None, dict[str, str], str]] = {
    "an empty file": (csv(""), LABEL, "Empty CSV file"),
    "no such column": (csv("file_name,b\n1,2\n"), LABEL, "--metadata T has no such column. Its columns: file_name, b"),
    "no such column of splits": (
        csv("file_name,b\n1,2\n"),
        {"split": "a"},
        "^--splits column:a: --metadata T has no such",
    ),
    "no column for the key": (
        csv("b,label\n1,2\n"),
        LABEL,
        "column of text that is called file_name, filename.*Its columns: b, label",
    ),
    "a doubled column": (csv("file_name,label,label\n1,2,3\n"), LABEL, "has this column twice. Rename one"),
    "UTF-16": (("t.csv", "file_name,label\n1,2\n".encode("utf-16")), LABEL, "is UTF-16. Save it as UTF-8."),
    "Latin-1 labels": (("t.csv", b"file_name,label\n1,k\xe4fer\n"), LABEL, "invalid UTF8 data"),
    "a Latin-1 column": (
        ("t.csv", b"file_name,a\n1,k\xe4fer\n"),
        {"columns": "a"},
        "it is not UTF-8 text. Convert the file",
    ),
    "a short row": (csv("file_name,label\n1,2\n3\n"), LABEL, "Expected 2 columns, got 1"),
    "a quote that is not closed": (
        csv('file_name,label\n1,"2\n' + "3,4\n" * 800_000),
        LABEL,
        "a row has more than 1,048,576 bytes. Is a quote not closed?",
    ),
    "a type that changes": (
        csv("file_name,a\n" + "1,2\n" * 3 + "1,x\n"),
        {"columns": "a:int64"},
        "column a: Row #5: CSV conversion error to int64: invalid value 'x'",
    ),
    "no key": (csv("file_name,label\n1,2\n,3\n"), LABEL, "row 3: column file_name is empty"),
    "no label": (
        csv("file_name,label\n1,2\n2,\n"),
        LABEL,
        "row 3: column label is empty, and it is the label. Fill it in",
    ),
    "no value": (
        csv("file_name,a\n1,\n2,5\n"),
        {"columns": "a"},
        "row 2: column a is empty. Fill it in, or give a default: --columns a=0",
    ),
    "a column without any value": (
        csv("file_name,a\n1,\n"),
        {"columns": "a"},
        "it has no value at its beginning. Declare its type: a:string",
    ),
    "a float that is too large": (
        csv("file_name,a\n1,1e300\n"),
        {"columns": "a"},
        r"row 2: column a holds 1e\+300, more than a 32-bit float can hold\. Correct it, or declare another type",
    ),
    "lists in CSV": (csv("file_name,a\n1,2\n"), {"columns": "a:int64[]"}, "holds no lists"),
    "no JSON": (jsonl('{"file_name": "1"}\n{oops\n'), {"columns": "a"}, "line 2 is not JSON"),
    "JSON that is no object": (
        jsonl("[1]\n"),
        LABEL,
        r"^--metadata \S+: line 1 is \[1\]. Give one JSON object per line.$",
    ),
    "a name twice in JSON": (
        jsonl('{"file_name": "1", "label": "a", "label": "b"}\n'),
        LABEL,
        "line 1 is not JSON .a name comes twice",
    ),
    "types that change in JSON": (
        jsonl('{"file_name": "1", "a": 1}\n{"file_name": "2", "a": "x"}\n'),
        {"columns": "a"},
        "^--columns a: in --metadata T it holds values of several types. Give values of one type.$",
    ),
    "labels of several types in JSON": (
        jsonl('{"file_name": "1", "label": 1}\n{"file_name": "2", "label": "x"}\n'),
        LABEL,
        "it holds values of several types. Allowed are text, integers and bools",
    ),
    "types that change in JSON, and are declared": (
        jsonl('{"file_name": "1", "a": 1}\n{"file_name": "2", "a": "x"}\n'),
        {"columns": "a:string"},
        "holds values of several types. Give values of one type.$",
    ),
    "no file": (None, LABEL, "cannot be read: No such file or directory. Correct the path."),
    "another suffix": (("t.xlsx", b"PK"), LABEL, "tables end in .csv, .tsv"),
    "no Parquet": (("t.parquet", b"PAR1 but no more"), LABEL, "Parquet"),
    "no gzip": (("t.csv.gz", b"file_name,label\n"), LABEL, "zlib|gzip|header"),
    "a gzip that is cut": (
        ("t.csv.gz", gzip.compress(b"file_name,label\n" + b"1,2\n" * 99)[:-12]),
        LABEL,
        "runcated|end",
    ),
    "a label that is a number with a point": (
        parquet(file_name=pa.array(["1"]), label=pa.array([1.5])),
        LABEL,
        "it is of type double. Allowed are text, integers",
    ),
    "labels that are lists of numbers with a point": (
        jsonl('{"file_name": "1", "label": [0.5]}\n'),
        LABEL,
        r"^--metadata \S+: column label holds lists of double. Labels are text, integers or bools.$",
    ),
    "a struct": (
        parquet(file_name=pa.array(["1"]), a=pa.array([{"x": 1}])),
        {"columns": "a"},
        "^--columns a: in --metadata T it is of type struct<x: int64>, and a column holds values or lists of values. Write each "
        "of its fields as a column of the table, or leave it out of --columns.$",
    ),
    "a struct that is declared as text": (
        parquet(file_name=pa.array(["1"]), a=pa.array([{"x": 1}])),
        {"columns": "a:string"},
        "Write each of its fields",
    ),
    "lists of lists": (jsonl('{"file_name": "1", "a": [[1]]}\n'), {"columns": "a"}, "Write each of its fields"),
    "numbers that are no bools": (
        parquet(file_name=pa.array(["1", "2", "3"]), a=pa.array([1, None, 15])),
        {"columns": "a:bool=false"},
        "^--metadata T: row 3: column a holds 15 where bool is expected. Write 0 or 1, or declare another type: --columns "
        "a:int64$",
    ),
    "a list of numbers that are no bools": (
        jsonl('{"file_name": "1", "a": [0, 0.5]}\n'),
        {"columns": "a:bool[]"},
        "row 1: column a holds 0.5 where bool is expected",
    ),
    "labels of CSV that are numbers with a point": (
        csv("file_name,label\n1,1.0\n2,\n"),
        LABEL,
        "^--label_column label: in --metadata T it holds numbers with a point, and each would be a class. Allowed are text, "
        "whole numbers, true and false: write 1 for 1.0.",
    ),
    "a list with another length": (
        parquet(file_name=pa.array(["1"]), a=pa.array([[1, 2]])),
        {"columns": "a:int64[3]"},
        "row 1: column a holds 2 values where a list of 3 values is expected",
    ),
    "bytes that are no text": (
        parquet(file_name=pa.array(["1"]), a=pa.array([b"\xff"])),
        {"columns": "a:string"},
        "column a is of type binary, and string is wanted: .* declare another type: --columns a:bytes$",
    ),
    "an integer of more than 64 bits": (
        parquet(file_name=pa.array(["1"]), a=pa.array([1 << 63], pa.uint64())),
        {"columns": "a"},
        "column a is of type uint64, and int64 is wanted",
    ),
}


@pytest.mark.parametrize(("file", "flags", "message"), BAD.values(), ids=list(BAD))
def test_a_table_that_cannot_be_used_says_why(
    file: File | None, flags: dict[str, str], message: str, tmp_path: Path
) -> None:
    name, data = file or ("none.csv", b"")
    path = tmp_path / name
    if file is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError) as found:
        rows(path, **flags)
    text = str(found.value).replace(str(path), "T")
    assert re.search(message, text), text
    assert text.startswith("--")
    assert len(text) < 800


FLAG_ERRORS = {
    "a column of a name of ours": ({"columns": "size"}, "--columns size: records and their table have a field size"),
    "a column of a name of ours but for case": (
        {"columns": "Width"},
        "--columns Width: records and their table have a field width of their own.",
    ),
    "a column twice": ({"columns": "a,a"}, "--columns a,a: a column is named twice"),
    "two columns that SQL takes for one": (
        {"columns": "a,A"},
        "--columns a,A: a column is named twice (case does not count)",
    ),
    "no such type": ({"columns": "a:date"}, "--columns a:date: 'a:date' is no column. Give NAME, NAME:TYPE or"),
    "a default of another type": ({"columns": "a:int64=x"}, "--columns a:int64=x: the default is no int64."),
    "a default that JSON does not know": (
        {"columns": "a:float=nan"},
        "--columns a:float=nan: the default is no float, finite and of 32 bits.",
    ),
    "nothing is used": ({}, "--metadata is given, but nothing of it is used."),
    "a key format without a place": ({"columns": "a", "key_format": "x"}, "--key_format x: write {} once"),
}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_arrow_reads_a_csv_ahead_without_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else its thread may call a file object of a Python that is ending, and the process aborts: now and then, and
    # oftener with tables of 50 MB, an error in --columns ended with "terminate called" in place of exit code 2.
    opened: list[object] = []
    open_csv = pyarrow.csv.open_csv

    def noted(file: object, *args: Any) -> Any:
        opened.append(file)
        return open_csv(file, *args)

    monkeypatch.setattr(pyarrow.csv, "open_csv", noted)
    table = open_table(TableFlags([str(write_table(tmp_path / name, ROWS))], columns="age"), label_from="none")
    assert table is not None
    with pytest.raises(UsageError, match="row 3: column age is empty"):
        list(read_rows(table))
    assert [isinstance(file, pa.NativeFile) for file in opened] == [True, True]


def test_a_column_that_is_not_taken_may_hold_anything(tmp_path: Path) -> None:
    mixed: list[Any] = [1, "x", {"y": []}, [1, "x"], 1 << 90]
    table = write_table(tmp_path / "t.jsonl", [{"file_name": "1", "a": 5, "b": value} for value in mixed])
    assert len({row for _, _, row in rows(table, columns="a")}) == 1


@pytest.mark.parametrize(("flags", "message"), FLAG_ERRORS.values(), ids=list(FLAG_ERRORS))
def test_flags_that_cannot_be_say_what_is_allowed(flags: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as found:
        opened(write_table(tmp_path / "t.csv", [{"file_name": "1", "a": 1, "size": 2}]), **flags)
    assert str(found.value).startswith(message)


@pytest.mark.parametrize("flag", ["label_column", "key_column", "key_format", "columns"])
def test_without_a_table_its_flags_are_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag} needs --metadata TABLE"):
        open_table(TableFlags(**{flag: "x{}"}), label_from="folders")


def values_of(found: list[tuple[int, bytes, bytes]]) -> list[dict[str, Any]]:
    return [
        {name: decode_features(feature)[name] for name, feature in unpack_table_row(row).features}
        for _, _, row in found
    ]


def test_zeros_and_ones_are_bools(tmp_path: Path) -> None:
    pq.write_table(pa.table({"file_name": ["1", "2"], "a": [0, 1], "b": [1.0, 0.0]}), tmp_path / "t.parquet")

    found = rows(tmp_path / "t.parquet", columns="a:bool,b:bool")

    assert [(values["a"], values["b"]) for values in values_of(found)] == [([0], [1]), ([1], [0])]


def test_an_empty_text_of_csv_takes_the_default_and_a_negative_zero_stays_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("file_name,site,score\n1,,0.0\n2,x,-0.0\n")

    found = rows(tmp_path / "t.csv", columns="site=none,score")

    assert [values["site"] for values in values_of(found)] == [[b"none"], [b"x"]]
    assert [str(values["score"][0]) for values in values_of(found)] == ["0.0", "-0.0"]


def test_a_long_integer_of_csv_behind_many_short_ones_makes_the_column_text(tmp_path: Path) -> None:
    cells = [*map(str, range(2_000)), "NA", "18446744073709551615", "18446744073709551614"]
    (tmp_path / "t.csv").write_text("".join(["file_name,id\n", *(f"{n},{cell}\n" for n, cell in enumerate(cells))]))

    found = values_of(rows(tmp_path / "t.csv", columns="id"))

    assert {values["id"][0] for values in found} == {cell.encode() for cell in cells}


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_a_pipe_is_refused_before_anything_waits_for_it(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)

    with pytest.raises(UsageError, match=r"is a pipe or a device, .*Save it as a file\.$"):
        rows(tmp_path / name, columns="a")


def test_a_csv_whose_name_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_text("file_name,site\n1,x\n")

    assert [values["site"] for values in values_of(rows(path, columns="site"))] == [[b"x"]]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (
            ["18446744073709551615", "7"],
            b"18446744073709551615",
        ),  # as text: as a float it would be its neighbour's number
        (["-9223372036854775809", ""], b"-9223372036854775809"),
        (["1" * 48, "7"], b"1" * 48),  # as of a hash
        (["1.8446744073709552e19", "0.5"], float(1 << 64)),
        (["1e20", "2e20"], float(np.float32(1e20))),
        (["1e20", "2"], float(np.float32(1e20))),
        (["1e400", "1.0"], float("inf")),
        (["9223372036854775807", "7"], (1 << 63) - 1),
    ],
    ids=["unsigned", "negative", "48 digits", "floats", "exponents", "one exponent", "infinity", "64 bits"],
)
def test_integers_of_csv_that_are_too_long_for_an_int64_are_text(
    cells: list[str], kind: object, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("".join(f"{cell}\n" for cell in ["file_name,id", f"1,{cells[0]}", f"2,{cells[1]}"]))

    found = rows(tmp_path / "t.csv", columns="id")

    assert values_of(found)[0]["id"] == [kind]
