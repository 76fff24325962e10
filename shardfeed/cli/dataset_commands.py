"""``verify``, ``inspect``, ``find``, ``report``, ``benchmark``: their flags, and what they run."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shardfeed.errors import DatasetError, UsageError, clip
from shardfeed.words import plural

if TYPE_CHECKING:
    from shardfeed.dataset.info import DatasetInfo, SplitInfo
    from shardfeed.inspection.find import Hits, RecordRow

_LISTED = 20  # hits that are listed without --limit; a screen has room for them
_DRAWN = 1_000  # hits of a sheet, the most that one takes
_SHEETS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


def add_dataset_command(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the flags of the command ``name`` to its parser, and what runs it."""
    parser.add_argument("dir", metavar="DIR", help="dataset: a folder, or one on gs://, s3://, az:// or https://")
    {
        "verify": _add_verify,
        "inspect": _add_inspect,
        "find": _add_find,
        "report": _add_report,
        "benchmark": _add_benchmark,
    }[name](parser)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_verify)
    parser.description = (
        "Compares the names and sizes of all files with the manifest; with --deep, everything in them too."
    )
    parser.epilog = "exit codes: 0 in order, 2 bad arguments, 4 damaged, incomplete or no dataset."
    parser.add_argument(
        "--deep", action="store_true", help="also read every byte, check every record and decode every image"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_inspect)
    parser.description = "Prints a summary of the dataset and the first records of a split."
    parser.epilog = "exit codes: 0 shown, 2 bad arguments, 4 damaged, incomplete or no dataset."
    parser.add_argument("split", nargs="?", metavar="SPLIT", help="split of the records (default: the first)")
    parser.add_argument("-n", type=int, default=10, metavar="N", help="number of records (default 10)")
    parser.add_argument(
        "--sheet", metavar="FILE", help="also draw the images of these records side by side into a PNG or JPEG file"
    )


def _add_find(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_find)
    parser.description = (
        "Prints the records that fulfil a condition, from the tables of records; no image is read but for --sheet. A line "
        "has the split and the record's number in it, shard, label, height x width, bytes and key."
    )
    parser.epilog = (
        "exit codes: 0 searched, also if nothing was found; 2 bad arguments, 4 damaged, incomplete or no dataset."
    )
    parser.add_argument(
        "--where",
        required=True,
        metavar="SQL",
        help="condition in SQL (SQLite's) on the columns of a record: label = 'skirt' and width > 400",
    )
    parser.add_argument(
        "--split", metavar="SPLIT", help="search this split, or a part such as train[:10%%] (default: all)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="records to list; 0: all (default: 20, with --json all)")
    parser.add_argument(
        "--sheet",
        metavar="FILE",
        help="also draw the images of the listed records, at most 1,000, side by side into a PNG or JPEG file",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per record, with all columns")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_report)
    parser.description = (
        "Writes a page about the dataset: one HTML file that opens anywhere and loads nothing. It shows classes and splits, "
        "sizes, contact sheets, rejects, near-duplicates, and how the dataset was built. Needs pip install 'shardfeed[report]'."
    )
    parser.epilog = "exit codes: 0 written, 2 bad arguments, 4 damaged, incomplete or no dataset."
    parser.add_argument(
        "--output",
        default="report.html",
        metavar="FILE",
        help="HTML file to write, outside of the dataset's folder (default %(default)s)",
    )
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="ROOT",
        help="folder or address of the input, to draw rejected images from; may be given several times",
    )


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_benchmark)
    parser.description = (
        "Reads batches for some seconds as a trainer would. Prints how fast they came, how fast this machine can "
        "decode alone and read alone, which of these is the bottleneck, and what to change."
    )
    parser.epilog = (
        "exit codes: 0 measured, whatever the verdict; 2 bad arguments, 4 damaged, incomplete or no dataset."
    )
    parser.add_argument("split", nargs="?", metavar="SPLIT", help="split to read (default: the first)")
    parser.add_argument("--batch_size", type=int, default=128, metavar="N", help="images per batch (default 128)")
    parser.add_argument(
        "--image_size", metavar="N|HxW", help="resize to this size while reading, in pixels (default: as stored)"
    )
    parser.add_argument(
        "--crop", choices=("center", "random_resized"), help="crop while reading (default: the whole image)"
    )
    parser.add_argument(
        "--step_ms",
        type=float,
        metavar="MS",
        help="milliseconds that your accelerator takes per batch; warns if the input is slower",
    )
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="how long to read (default 5)")
    parser.add_argument(
        "--reader",
        choices=("tensorflow", "arrays"),
        default="tensorflow",
        help="the reader to measure: shardfeed.load (tensorflow, the default) or shardfeed.array_batches (arrays)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _verify(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed.verification.dataset import verify

    report = verify(args.dir, deep=args.deep)
    return 0 if report.ok else DatasetError.code, report.to_json() if args.json else str(report)


def _inspect(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    import shardfeed
    from shardfeed.inspection.first_records import first_records
    from shardfeed.inspection.summary import dataset_summary

    if args.sheet is not None:
        kind = _sheet_kind(args.dir, args.sheet)
        if args.n > _DRAWN:
            raise UsageError(
                f"-n {args.n}: a contact sheet shows at most {_DRAWN:,} records. Give fewer, or leave --sheet out."
            )
    dataset = shardfeed.info(args.dir)
    split = args.split or next(iter(dataset.splits))
    records = first_records(dataset, split, args.n)
    lines = [dataset_summary(dataset), "", f"first {plural(len(records), 'record')} of {split}:"]
    for record in records:
        if len(record.classes) == 1:
            label = f"{record.classes[0]:>4} {clip(record.labels[0], 24):<24}"
        else:
            label = f"{clip(record.caption, 29):<29}"
        size = f"{record.height}x{record.width}"
        lines.append(f"  {label} {size}  {len(record.image):>9,} B  {clip(record.key, 80)}")
    if args.sheet is not None:
        from shardfeed.inspection.contact_sheet import draw_sheet

        title = f"{split}: {len(records):,} of {dataset.splits[split].num_records:,} records"
        _write("--sheet", draw_sheet(records, title, dataset.manifest.image, kind), args.sheet)
        lines += ["", f"contact sheet: {args.sheet}"]
    return 0, "\n".join(lines)


def _find(args: argparse.Namespace, _rest: list[str]) -> tuple[int, Iterator[str]]:
    import shardfeed
    from shardfeed.arguments import integer
    from shardfeed.inspection.find import find

    if args.limit is None:
        args.limit = 0 if args.json else _LISTED
    args.limit = integer("--limit", args.limit, least=0) or sys.maxsize
    if args.sheet is not None:
        _sheet_kind(args.dir, args.sheet)
    dataset = shardfeed.info(args.dir)
    splits = list(dataset.splits.values()) if args.split is None else [dataset.splits[args.split]]
    return 0, _hits(args, dataset, splits, find(dataset, args.where, splits))


def _hits(
    args: argparse.Namespace, dataset: DatasetInfo, splits: Sequence[SplitInfo], found: Iterable[Hits]
) -> Iterator[str]:
    """Pieces of the output, as the tables are read."""
    from shardfeed.inspection.hit_lines import json_line, last_line, line_of

    line = json_line if args.json else line_of(dataset)
    first: list[RecordRow] = []  # to draw
    count = listed = 0
    for hits in found:
        rows = hits.rows(args.limit - listed)
        count, listed = count + len(hits.numbers), listed + len(rows)
        first += rows[: (_DRAWN if args.sheet else 1) - len(first)]
        if rows:
            yield "\n".join(map(line, rows))
    if args.sheet is not None and first:
        from shardfeed.inspection.contact_sheet import draw_sheet
        from shardfeed.inspection.find import stored_records

        kind, title = _sheet_kind(args.dir, args.sheet), f"{len(first):,} of {count:,} records: {args.where}"
        sheet = draw_sheet(stored_records(dataset, first), title, dataset.manifest.image, kind)
        _write("--sheet", sheet, args.sheet)
    if not args.json:
        if args.sheet is not None:
            yield f"contact sheet: {args.sheet if first else 'none, because there is no record to draw'}"
        yield last_line(dataset, splits, count, listed, first[0] if first else None)


def _report(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed import storage
    from shardfeed.reporting.page import report
    from shardfeed.words import human_bytes

    if not args.output.lower().endswith((".html", ".htm")):
        raise UsageError(
            f"--output {clip(args.output)}: a report is an HTML page. Give a name that ends in .html, .htm."
        )
    _refuse_inside("--output", args.dir, args.output)
    for source in args.source:
        if not storage.is_remote(source) and not os.path.isdir(source):
            raise UsageError(
                f"--source {clip(source)} is no folder. Give the folder or address that the build read; of a list its root, of "
                "an archive the folder that it was unpacked to."
            )
    page = report(args.dir, args.source).encode()
    _write("--output", page, args.output)
    return 0, f"report: {args.output} ({human_bytes(len(page))})"


def _write(flag: str, data: bytes, path: str) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "Free some space, or give" if full else "Give"
        raise UsageError(
            f"{flag} {clip(path)} cannot be written: {error.strerror}. {remedy} a file in a folder that exists and may be "
            "written."
        ) from None


def _benchmark(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    import shardfeed
    from shardfeed.arguments import height_width, parse_image_size, positive
    from shardfeed.benchmarking.stream import benchmark, check_times

    check_times(args.seconds, args.step_ms)  # before TensorFlow is imported, which takes seconds
    positive("batch_size", args.batch_size)
    options: dict[str, Any] = {}
    if args.image_size is not None:
        options["image_size"] = height_width("image_size", parse_image_size(args.image_size))
    if args.crop is not None:
        options["crop"] = args.crop
    info = shardfeed.info(args.dir)
    split = next(iter(info.splits)) if args.split is None else info.splits[args.split].name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's notes about this CPU do not belong here
    try:
        read: Any = shardfeed.load if args.reader == "tensorflow" else shardfeed.array_batches
    except ImportError as error:
        other = ". Without TensorFlow, measure the NumPy reader: --reader arrays" if args.reader == "tensorflow" else ""
        raise UsageError(f"{error}{other}") from None
    # This process alone, wherever it runs: the host is never looked for.
    batches = read(info, split, args.batch_size, training=True, host=(0, 1), **options)
    result = benchmark(batches, info, split, seconds=args.seconds, step_ms=args.step_ms, **options)
    return 0, result.to_json() if args.json else str(result)


def _sheet_kind(directory: str, path: str) -> str:
    """PNG or JPEG, before anything is read; a sheet is no file of the dataset."""
    kind = _SHEETS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise UsageError(
            f"--sheet {clip(path)}: a sheet is a PNG or JPEG image. Give a name that ends in {', '.join(_SHEETS)}."
        )
    _refuse_inside("--sheet", directory, path)
    return kind


def _refuse_inside(flag: str, directory: str, path: str) -> None:
    """A file that is made of a dataset is no file of it."""
    if os.path.realpath(path).startswith(os.path.join(os.path.realpath(os.path.expanduser(directory)), "")):
        raise UsageError(f"{flag} {clip(path)} lies in the dataset's folder. Give a file outside of it.")
