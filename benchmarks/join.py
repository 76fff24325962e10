"""The join of a metadata table with as many images, as the local build does it: seconds and memory.

    python benchmarks/join.py --rows 1000000 --format csv

Each size runs in a process of its own. The images come in another order than the rows.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_STEP = 7_368_787  # a prime: the order of the images


def key(number: int) -> str:
    """The key of an image, 36 bytes."""
    return f"images/{number % 97:02}/photo-{number:012}.jpg"


def write(path: Path, rows: int) -> None:
    """A table of an image's name, label, group and three further columns."""
    with path.open("w") as file:
        file.write("file_name,species,patient,age,site,score\n")
        for number in range(rows):
            file.write(
                f"{key(number)},class {number % 1000},p{number // 10},{number % 90},site {number % 50},{number / 8}\n"
            )
    if path.suffix == ".parquet":
        import pyarrow.csv
        import pyarrow.parquet

        csv = path.rename(path.with_suffix(".csv"))
        writer = None
        for batch in pyarrow.csv.open_csv(csv):
            writer = writer or pyarrow.parquet.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
        assert writer is not None
        writer.close()


def join(path: Path, rows: int) -> None:
    """Joins, and prints what it took."""
    from shardfeed.pipeline.config.table import TableFlags, open_table
    from shardfeed.storage import Stat
    from shardfeed.transforms.elements import ImageRef, RefBatch, pack_ref
    from shardfeed.transforms.metadata.join_here import join_here

    def listing() -> Iterator[RefBatch]:
        for start in range(0, rows, 10_000):
            numbers = (number * _STEP % rows for number in range(start, min(start + 10_000, rows)))
            refs = (pack_ref(ImageRef(0, key(number).encode(), Stat(30_000, number))) for number in numbers)
            yield RefBatch("", b"".join(refs))

    flags = TableFlags([str(path)], "species", columns="age,site,score", group="patient")
    table = open_table(flags, label_from="table")
    before, began, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), time.process_time()
    size = sum(len(batch.refs) for batch in join_here(listing(), table, str(path.parent / "out")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{rows:>11,} rows {path.suffix[1:]:8} {time.perf_counter() - began:6.1f} s ({time.process_time() - cpu:.1f} s of CPU), "
        f"peak {peak / 1024:,.0f} MB ({before / 1024:,.0f} MB before), {size / rows:.0f} bytes per image with its row"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument("--folder", help="where the table is written")
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table is not None:
        return join(args.table, args.rows[0])
    for rows in args.rows:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            path = Path(folder) / f"table.{args.format}"
            write(path, rows)
            subprocess.run([sys.executable, __file__, "--rows", str(rows), "--table", str(path)], check=True)


if __name__ == "__main__":
    main()
