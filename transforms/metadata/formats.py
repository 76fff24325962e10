"""CSV, JSON Lines and Parquet, local or remote, as batches of Arrow arrays.

A table is read from front to back and never held whole: CSV in blocks, JSON Lines by the line,
Parquet in batches through a small buffer, so that a row group of any size takes the same memory.

CSV has text only, and its types are guessed by pyarrow from the first block. So the launcher looks
at the head once (``found_types``) and every later reader is told the types (``read_table``). A
value that does not fit is then an error, and no type depends on where in the file a value stands.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage.stored_file import open_file

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
FIRST_ROW = {"csv": 2, "jsonl": 1, "parquet": 1}  # as spreadsheets and editors number them
_BLOCK = 1 << 20  # bytes of CSV at a time; a row must fit. pyarrow reads up to 32 blocks ahead
_ROWS = 8_192  # at a time, as the values of a batch become Python's
_HEAD_ROWS = 1_000  # of JSON Lines, from which types are guessed
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_LINE = 16 << 20  # bytes of a line of JSON at most
_BUFFER = 1 << 20  # bytes asked of a store or of a column of Parquet at a time


def _suffix(url: str) -> str:
    """The suffix of a name, without that of the compression."""
    stem, suffix = os.path.splitext(url.lower())
    return os.path.splitext(stem)[1] if suffix in _COMPRESSED else suffix


def format_of(url: str) -> str:
    """``csv``, ``jsonl`` or ``parquet``, by the name's suffix.

    Raises:
        UsageError: another suffix.
    """
    suffix = _suffix(url)
    if suffix not in FORMATS or (suffix == ".parquet" and not url.lower().endswith(suffix)):
        raise UsageError(
            f"--metadata {clip(url)}: tables end in {', '.join(FORMATS)}; all but Parquet also with {', '.join(_COMPRESSED)} "
            "behind it. Rename or convert the file."
        )
    return FORMATS[suffix]


def found_types(url: str) -> list[tuple[str, pa.DataType]]:
    """(name, type) of each column, in order; a name may come twice.

    The null type: no value yet. See ``is_mixed`` too.

    Raises:
        UsageError: the file is absent or not a table of its format.
    """
    kind = format_of(url)
    if not storage.is_remote(url) and os.path.exists(url) and not (os.path.isfile(url) or os.path.isdir(url)):
        raise UsageError(
            f"--metadata {clip(url)} is a pipe or a device, and a table is read more than once. Save it as a file."
        )
    with _explained(url):
        if kind != "parquet":
            with _open(url) as file:
                if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # a spreadsheet's "Unicode text"
                    raise UsageError(f"--metadata {clip(url)} is UTF-16. Save it as UTF-8.")
        return _HEADS[kind](url)


def read_table(url: str, types: Mapping[str, pa.DataType | None]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Number of the first row, and the columns that ``types`` names, batch by batch.

    A type is what CSV's text is read as; None: values are taken as they are.

    Raises:
        UsageError: a file that cannot be read; a value that is not of the type.
    """
    kind = format_of(url)
    number = FIRST_ROW[kind]
    with _explained(url):
        for found in _READERS[kind](url, types):
            yield number, found
            number += len(next(iter(found.values())))


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except UsageError:  # which is a ValueError
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            remedy = (
                "Make it readable (chmod u+r)." if error.errno in (errno.EACCES, errno.EPERM) else "Correct the path."
            )
            raise UsageError(f"--metadata {clip(url)} cannot be read: {error.strerror}. {remedy}") from None
        if "straddling object" in str(error):
            raise UsageError(
                f"--metadata {clip(url)}: a row has more than {_BLOCK:,} bytes. Is a quote not closed? Correct the file, or give "
                "JSON Lines or Parquet."
            ) from None
        text = re.sub(r"^In CSV column #(\d+)", lambda at: f"column {clip(_csv_head(url)[int(at[1])][0])}", str(error))
        raise UsageError(
            f"--metadata {clip(url)}: {clip(text, 400)}. Correct the file; or, if a column holds values of several types, "
            "declare it as text: --columns NAME:string"
        ) from None


def _open(url: str) -> IO[bytes]:
    """The uncompressed bytes."""
    import pyarrow as pa

    file = _raw(url)
    codec = _COMPRESSED.get(os.path.splitext(url.lower())[1])
    return (
        file if codec is None else io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), codec), _BUFFER)
    )


def _raw(url: str) -> IO[bytes]:
    if not storage.is_remote(url):
        return open(url, "rb", _BUFFER)
    folder, _, name = url.rpartition("/")
    store = storage.open_store(folder)
    found = store.stat(name)
    if found is None:
        raise UsageError(f"--metadata {clip(url)} is not there. Correct the address.")
    return open_file(store, name, found.size)


def _open_csv(url: str) -> Any:
    """The uncompressed bytes, for Arrow's threads, which read ahead.

    They would abort the process if they called a file object of a Python that is just ending.
    """
    import pyarrow as pa

    if storage.is_remote(url) or not _is_utf8(url):  # Arrow takes no other names
        return _open(url)
    return pa.input_stream(url, compression=_COMPRESSED.get(os.path.splitext(url.lower())[1]))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _csv(file: Any, url: str, types: Mapping[str, pa.DataType | None] | None) -> pa.RecordBatchReader:
    import pyarrow.csv as csv

    options = csv.ConvertOptions()
    if types is not None:
        options.include_columns = list(types)
        options.column_types = {name: kind for name, kind in types.items() if kind is not None}
    # One thread: only then errors name the row.
    return csv.open_csv(
        file,
        csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        csv.ParseOptions(newlines_in_values=True, delimiter="\t" if _suffix(url) == ".tsv" else ","),
        options,
    )


def _csv_head(url: str) -> list[tuple[str, pa.DataType]]:
    import pyarrow as pa

    schema, block = _first_block(url, None)
    types = [(field.name, field.type) for field in schema]
    # A name that comes twice cannot be asked for.
    long = [name for name, _ in types if len(schema.get_all_field_indices(name)) == 1 and _has_long(block.column(name))]
    if not long:
        return types
    _, texts = _first_block(url, dict.fromkeys(long, pa.string()))
    integers = {name for name in long if _are_integers(texts.column(name), block.column(name))}
    return [(name, pa.string() if name in integers else kind) for name, kind in types]


def _first_block(url: str, types: Mapping[str, pa.DataType | None] | None) -> tuple[pa.Schema, pa.RecordBatch]:
    import pyarrow as pa

    with _open_csv(url) as file, contextlib.closing(_csv(file, url, types)) as reader:
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in reader.schema.types], schema=reader.schema)
        return reader.schema, next(iter(reader), empty)


def _has_long(column: pa.Array) -> bool:
    """Whether pyarrow took a column for floats and found a number that no int64 holds."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        return False
    return bool((np.abs(column.to_numpy(zero_copy_only=False)) >= 1 << 63).any())


def _are_integers(texts: pa.Array, numbers: pa.Array) -> bool:
    """Whether all ``numbers`` are written without point and exponent: as floats, some of them would be equal."""
    return all(
        _INTEGER.fullmatch(text)
        for text, known in zip(texts.to_pylist(), numbers.is_valid().to_pylist(), strict=True)
        if known
    )


def _csv_batches(url: str, types: Mapping[str, pa.DataType | None]) -> Iterator[dict[str, pa.Array]]:
    with _open_csv(url) as file, contextlib.closing(_csv(file, url, types)) as reader:
        for block in reader:
            for start in range(0, len(block), _ROWS):
                batch = block.slice(start, _ROWS)
                yield dict(zip(batch.schema.names, batch.columns, strict=True))


def _parquet_head(url: str) -> list[tuple[str, pa.DataType]]:
    import pyarrow.parquet as pq

    with _raw(url) as file:
        return [(field.name, field.type) for field in pq.ParquetFile(file).schema_arrow]


def _parquet_batches(url: str, types: Mapping[str, pa.DataType | None]) -> Iterator[dict[str, pa.Array]]:
    import pyarrow.parquet as pq

    with _raw(url) as file:
        # With a buffer a column is streamed; without one it is read up to the end of its row group.
        table = pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        for batch in table.iter_batches(_ROWS, columns=list(types), use_threads=False):
            yield {name: batch.column(name) for name in types}


def _json_rows(url: str) -> Generator[dict[str, Any], None, None]:
    with _open(url) as file:
        for number in itertools.count(FIRST_ROW["jsonl"]):
            line = file.readline(_LINE + 1)
            if not line:
                return
            if len(line) > _LINE:
                raise UsageError(
                    f"--metadata {clip(url)}: line {number} has more than {_LINE:,} bytes. Give one JSON object per line."
                )
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # editors on Windows begin files with it
            try:
                row = json.loads(line.decode(), object_pairs_hook=_unique) if line.strip() else None
            except (ValueError, RecursionError) as error:
                raise UsageError(
                    f"--metadata {clip(url)}: line {number} is not JSON ({clip(error)}). Give one JSON object per line."
                ) from None
            if not isinstance(row, dict):
                shown = clip(line.strip() or "empty", 60)
                raise UsageError(f"--metadata {clip(url)}: line {number} is {shown}. Give one JSON object per line.")
            yield row


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a name comes twice in an object")
    return row


def _json_head(url: str) -> list[tuple[str, pa.DataType]]:
    rows = list(itertools.islice(_json_rows(url), _HEAD_ROWS))
    return [(name, _json_type([row.get(name) for row in rows])) for name in dict.fromkeys(itertools.chain(*rows))]


def is_mixed(kind: pa.DataType) -> bool:
    """Whether a column of ``found_types`` holds values of several types. The others can be read."""
    import pyarrow as pa

    return bool(pa.types.is_union(kind))


def _json_type(values: list[Any]) -> pa.DataType:
    import pyarrow as pa

    try:
        return pa.array(values).type
    except (pa.ArrowException, OverflowError):
        return pa.dense_union([])


def _json_batches(url: str, types: Mapping[str, pa.DataType | None]) -> Iterator[dict[str, pa.Array]]:
    import pyarrow as pa

    with contextlib.closing(_json_rows(url)) as rows:
        number = FIRST_ROW["jsonl"]
        while some := list(itertools.islice(rows, _ROWS)):
            found = {}
            for name, kind in types.items():
                values = [row.get(name) for row in some]
                try:
                    found[name] = pa.array(values, kind)
                except (pa.ArrowException, OverflowError, TypeError) as error:
                    raise UsageError(
                        f"--metadata {clip(url)}: lines {number:,} to {number + len(some) - 1:,}, column {clip(name)}: "
                        f"{clip(error)}. Give values of one type."
                    ) from None
            yield found
            number += len(some)


_HEADS: Mapping[str, Callable[[str], list[tuple[str, Any]]]] = {
    "csv": _csv_head,
    "jsonl": _json_head,
    "parquet": _parquet_head,
}
_READERS: Mapping[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "csv": _csv_batches,
    "jsonl": _json_batches,
    "parquet": _parquet_batches,
}
