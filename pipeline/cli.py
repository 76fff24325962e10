"""The command line. Nothing heavy is imported before a command needs it: ``--help`` has to answer at once."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from pipeline.console import forgiving_stderr
from pipeline.flags import BUILD_EPILOG, PLAN_EPILOG, add_build_flags, build_config
from shardfeed._version import __version__
from shardfeed.errors import DatasetError, IncompleteError, ShardfeedError, UsageError, clip


def main(argv: Sequence[str] | None = None, decided: Callable[[int], object] = lambda code: None) -> int:
    """Runs one command; returns the exit code (see ``shardfeed build --help``), which ``decided`` gets once it is certain."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show must not fail a finished build
        sys.stdout.reconfigure(errors="backslashreplace")
    with forgiving_stderr():
        try:
            return _run(sys.argv[1:] if argv is None else argv, decided)
        except SystemExit as leaving:  # argparse's, which has said why; or another library's, with a text
            decided(leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None))
            raise
        except BaseException:
            decided(1)
            raise


def _run(argv: Sequence[str], decided: Callable[[int], object]) -> int:
    parser = _parser()
    known, rest = parser.parse_known_args(_underscored(argv))
    if known.command is None:
        parser.print_help()
        decided(UsageError.code)
        return UsageError.code
    code, text, why = _result(known, rest)
    if known.command == "build":
        decided(code)  # the dataset is published or not, whoever hears of it; what else is said counts when it is said
    if why:
        print(f"shardfeed: {why}", file=sys.stderr)
    else:
        _say(text)
    decided(code)
    return code


def _result(known: argparse.Namespace, rest: Sequence[str]) -> tuple[int, str, str]:
    """(exit code, result, empty) of a command, or (exit code, empty, why there is none)."""
    try:
        if rest and known.command not in ("build", "plan"):
            raise UsageError(f"{known.command}: unknown argument {rest[0]}. See `shardfeed {known.command} --help`.")
        code, text = known.run(known, rest)
        return int(code), text, ""
    except ShardfeedError as error:
        return error.code, "", str(error)
    except FileNotFoundError:
        if _has_current_folder():
            raise
        return (
            UsageError.code,
            "",
            "the current folder has been deleted, so that relative paths mean nothing. Change to a folder that is there (cd), "
            "then run the command again.",
        )
    except KeyboardInterrupt:  # in a program of somebody else's, which listens for it itself
        return IncompleteError.code, "", f"stopped before {known.command} was complete; rerun the same command."


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _say(text: str) -> None:
    """Prints a result. A reader that has left, or a full disk behind the pipe, does not change how the command ended."""
    try:
        print(text, flush=True)
    except OSError as error:
        # What is still buffered would fail again when the interpreter ends, and change the exit code then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"shardfeed: the result could not be printed: {error}", file=sys.stderr)


def _underscored(argv: Sequence[str]) -> list[str]:
    out = []
    for arg in argv:
        name, equals, value = arg.partition("=")
        out.append(name.replace("-", "_").replace("__", "--", 1) + equals + value if arg.startswith("--") else arg)
    return out


class _Parser(argparse.ArgumentParser):
    """argparse with our error form and exit code, and without abbreviations (a new flag must not change an old command)."""

    def error(self, message: str) -> None:  # type: ignore[override]
        print(f"shardfeed: {message}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(UsageError.code)


def _parser() -> _Parser:
    parser = _Parser(
        prog="shardfeed",
        description="Turns a folder or bucket of images, one folder a class, into a verified TFRecord dataset.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"shardfeed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    build = commands.add_parser(
        "build",
        help="images to a committed dataset",
        description="Builds a dataset, or carries on with one that was interrupted.",
        epilog=BUILD_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    build.set_defaults(run=_build)
    add_build_flags(build)
    plan = commands.add_parser(
        "plan",
        help="what a build would give and cost; writes nothing",
        description="Lists the input, encodes a few hundred of its images, and forecasts the build with the same flags: images\n"
        "by class and split, bytes, shards, seconds here, hours and dollars on Dataflow. Writes nothing; needs no Beam.",
        epilog=PLAN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    plan.set_defaults(run=_plan)
    add_build_flags(plan)
    plan.add_argument(
        "--list_at_most",
        type=int,
        metavar="N",
        help="end without a forecast (exit code 0) if the input holds more files",
    )
    verify = commands.add_parser(
        "verify",
        help="check a dataset",
        description="Checks names and sizes at once; with --deep every byte, record and image.",
        epilog="exit codes: 0 in order, 2 bad arguments, 4 damaged, incomplete or no dataset.",
        allow_abbrev=False,
    )
    _add_verify(verify)
    status = commands.add_parser(
        "status",
        help="how far a build is, and what to do next",
        description="Says what lies in an output: a complete dataset, a build that runs or was broken off and how far it is,\n"
        "or neither; from its files alone, wherever the build runs. Reads only.",
        epilog="exit codes: 0 a complete dataset, 2 bad arguments, 3 too many images could not be used, 4 not complete or\n"
        "nothing there, 5 being discarded, or files that are not a build's.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    status.set_defaults(run=_status)
    status.add_argument("dir", metavar="DIR", help="output of a build: folder or gs://bucket/folder")
    status.add_argument("--json", action="store_true", help="print the same as JSON")
    inspect = commands.add_parser(
        "inspect",
        help="show a dataset's card and first records",
        description="Prints the dataset's card and the first records of a split.",
        allow_abbrev=False,
    )
    _add_inspect(inspect)
    benchmark = commands.add_parser(
        "benchmark",
        help="how fast a trainer here can read a dataset, and what holds it up",
        description="Reads batches as a trainer would, for some seconds, and says how fast they came, what decoding and\n"
        "reading alone can do on this machine, which of them is the bottleneck, and what to change.",
        epilog="exit codes: 0 measured, whatever the verdict; 2 bad arguments, 4 damaged, incomplete or no dataset.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_benchmark(benchmark)
    return parser


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_verify)
    parser.add_argument("dir", metavar="DIR", help="dataset: folder or gs://bucket/folder")
    parser.add_argument("--deep", action="store_true", help="read everything: crc, records, keys, images")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_inspect)
    parser.add_argument("dir", metavar="DIR", help="dataset: folder or gs://bucket/folder")
    parser.add_argument("split", nargs="?", metavar="SPLIT", help="whose records (default: the first split)")
    parser.add_argument("-n", type=int, default=10, metavar="N", help="records shown (default 10)")
    parser.add_argument("--sheet", metavar="FILE.png", help="also draw the records' images into a contact sheet")


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_benchmark)
    parser.add_argument("dir", metavar="DIR", help="dataset: folder or gs://bucket/folder")
    parser.add_argument("split", nargs="?", metavar="SPLIT", help="which split (default: the first)")
    parser.add_argument("--batch_size", type=int, default=128, metavar="N", help="images a batch (default 128)")
    parser.add_argument("--image_size", metavar="N|HxW", help="as load resizes them (default: as stored)")
    parser.add_argument("--crop", choices=("center", "random_resized"), help="as load cuts them (default: not at all)")
    parser.add_argument(
        "--step_ms",
        type=float,
        metavar="MS",
        help="what your accelerator takes for a batch; warns if the input is slower",
    )
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="how long to read (default 5)")
    parser.add_argument(
        "--reader", choices=("tensorflow", "arrays"), default="tensorflow", help="load (default) or array_batches"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _build(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from pipeline.launch import run_build

    summary = run_build(build_config(args, rest), progress=sys.stderr)
    return 0, summary.to_json() if args.json else summary.to_text()


def _plan(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from pipeline.plan_command import plan_build

    forecast = plan_build(build_config(args, rest), list_at_most=args.list_at_most)
    return forecast.code, forecast.to_json() if args.json else forecast.to_text()


def _verify(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed.verify import verify

    report = verify(args.dir, deep=args.deep)
    return 0 if report.ok else DatasetError.code, report.to_json() if args.json else str(report)


def _status(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from pipeline.status_command import status_of

    status = status_of(args.dir)
    return status.code, status.to_json() if args.json else status.to_text()


def _inspect(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    import shardfeed
    from shardfeed.card import card
    from shardfeed.records import first_records

    if args.sheet is not None:
        _check_sheet(args.dir, args.sheet)
    split = args.split or next(iter(shardfeed.info(args.dir).splits))
    records = first_records(args.dir, split, args.n)
    lines = [card(args.dir), "", f"first {len(records)} records of {split}:"]
    for record in records:
        label, size = clip(record.label, 24), f"{record.height}x{record.width}"
        lines.append(f"  {record.class_index:>4} {label:<24} {size}  {len(record.image):>9,} B  {clip(record.key, 80)}")
    if args.sheet is not None:
        _write_sheet(args.dir, split, args.n, args.sheet)
        lines += ["", f"contact sheet: {args.sheet}"]
    return 0, "\n".join(lines)


def _benchmark(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from pipeline.config import parse_image_size
    from shardfeed import storage
    from shardfeed.benchmarking import benchmark_reader
    from shardfeed.gcs_tuning import tune_gcs

    if storage.is_remote(args.dir):
        tune_gcs()
    result = benchmark_reader(
        args.dir,
        args.split,
        args.batch_size,
        reader=args.reader,
        seconds=args.seconds,
        step_ms=args.step_ms,
        image_size=None if args.image_size is None else parse_image_size(args.image_size),
        crop=args.crop,
    )
    return 0, result.to_json() if args.json else str(result)


def _check_sheet(directory: str, path: str) -> None:
    """Before anything is read: the sheet is a PNG, and no file of the dataset."""
    if not path.lower().endswith(".png"):
        raise UsageError(f"--sheet {clip(path)}: a sheet is a PNG image. Give a name that ends in .png.")
    if os.path.dirname(os.path.realpath(path)) == os.path.realpath(directory):
        raise UsageError(f"--sheet {clip(path)} lies in the dataset's folder. Give a file outside of it.")


def _write_sheet(directory: str, split: str, count: int, path: str) -> None:
    from shardfeed.contact_sheet import contact_sheet

    data = contact_sheet(directory, split, n=count)
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(
            f"--sheet {clip(path)} cannot be written: {error}. Give a file in a folder that exists."
        ) from None
