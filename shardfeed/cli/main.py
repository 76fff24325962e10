"""The command line. Nothing heavy is imported before a command needs it: ``--help`` has to answer at once."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from shardfeed._version import __version__
from shardfeed.cli.stderr import forgiving_stderr
from shardfeed.errors import DatasetError, IncompleteError, ShardfeedError, UsageError, clip

# Commands of the job, which write or read a build's output, and what each does. Their code is imported when one is called.
PIPELINE_COMMANDS = {
    "build": "images to a committed dataset",
    "plan": "what a build would give and cost; writes nothing",
    "status": "how far a build is, and what to do next",
}


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
    arguments = _underscored(argv)
    parser = _parser(next((arg for arg in arguments if not arg.startswith("-")), None))
    known, rest = parser.parse_known_args(arguments)
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


def _parser(command: str | None) -> _Parser:
    """All commands. Only the flags of ``command`` are there if it belongs to the pipeline, which is imported for them."""
    parser = _Parser(
        prog="shardfeed",
        description="Turns a folder or bucket of images, one folder a class, into a verified TFRecord dataset.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"shardfeed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_of_pipeline(commands, "build", command)
    _add_of_pipeline(commands, "plan", command)
    verify = commands.add_parser(
        "verify",
        help="check a dataset",
        description="Checks names and sizes at once; with --deep every byte, record and image.",
        epilog="exit codes: 0 in order, 2 bad arguments, 4 damaged, incomplete or no dataset.",
        allow_abbrev=False,
    )
    _add_verify(verify)
    _add_of_pipeline(commands, "status", command)
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


def _add_of_pipeline(commands: argparse._SubParsersAction[_Parser], name: str, called: str | None) -> None:
    below = commands.add_parser(name, help=PIPELINE_COMMANDS[name], allow_abbrev=False)
    if name == called:
        from shardfeed.pipeline.cli.commands import add_command

        add_command(below, name)


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


def _verify(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed.verification.dataset import verify

    report = verify(args.dir, deep=args.deep)
    return 0 if report.ok else DatasetError.code, report.to_json() if args.json else str(report)


def _inspect(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    import shardfeed
    from shardfeed.dataset.first_records import first_records
    from shardfeed.inspection.summary import card

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
    from shardfeed import storage
    from shardfeed.arguments import parse_image_size
    from shardfeed.benchmarking.stream import benchmark_reader
    from shardfeed.tfdata.tune_gcs import tune_gcs

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
    from shardfeed.inspection.contact_sheet import contact_sheet

    data = contact_sheet(directory, split, n=count)
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(
            f"--sheet {clip(path)} cannot be written: {error}. Give a file in a folder that exists."
        ) from None
