"""``build``, ``plan`` and ``status`` on the command line: flags, help, and what each runs."""

from __future__ import annotations

import argparse
import sys

from shardfeed.pipeline.cli.flags import add_build_flags


def add_command(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the flags of the command ``name`` to its parser, and what runs it."""
    {"build": _add_build, "plan": _add_plan, "status": _add_status}[name](parser)


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Builds a dataset, or carries on with a build that was interrupted."
    parser.epilog = """\
examples:
  shardfeed build --input photos/ --output out/ --splits train=0.9,validation=0.1
  shardfeed build --input 'gs://flowers/*/*.jpg' --output gs://datasets/flowers/v1

Flags may be spelled with hyphens. With --runner, options of Apache Beam are taken too, such as
  --runner PortableRunner --job_endpoint localhost:8099

exit codes: 0 published and complete, 1 a bug, 2 bad arguments, 3 too many
rejects, 4 incomplete (rerun the same command), 5 conflicting output."""
    parser.set_defaults(run=_build)
    add_build_flags(parser)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = """\
Lists the input, encodes a few hundred of its images, and forecasts the build
with the same flags: images by class and split, bytes, shards, time here, and
time and dollars on Dataflow. Writes nothing; needs no Beam."""
    parser.epilog = """\
example:
  shardfeed plan --input photos/ --output out/ --splits train=0.9,validation=0.1

exit codes: 0 a forecast was made, or the input holds more files than
--list_at_most; 2 bad arguments; 4 the input could not be read; 3 or 5 the
build would surely end with this code, and the forecast or the message says
why."""
    parser.set_defaults(run=_plan)
    add_build_flags(parser)
    parser.add_argument(
        "--list_at_most",
        type=int,
        metavar="N",
        help="stop without a forecast (exit code 0) if the input holds more than N files",
    )


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows what an output holds: a complete dataset, an unfinished build and how far it is, or neither. "
        "Looks only at its files, wherever the build runs, and changes nothing."
    )
    parser.epilog = (
        "exit codes: 0 a complete dataset, 2 bad arguments, 3 rejects or near-duplicates stopped it, 4 not complete or "
        "nothing there, 5 being discarded, or files that are not a build's."
    )
    parser.set_defaults(run=_status)
    parser.add_argument("dir", metavar="DIR", help="output of a build: folder or gs://bucket/folder")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _build(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.cli.config_from_flags import build_config
    from shardfeed.pipeline.run_build import run_build

    summary = run_build(build_config(args, rest), progress=sys.stderr)
    return 0, summary.to_json() if args.json else summary.to_text()


def _plan(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.cli.config_from_flags import build_config
    from shardfeed.pipeline.plan.command import plan_build

    forecast = plan_build(build_config(args, rest), list_at_most=args.list_at_most)
    return forecast.code, forecast.to_json() if args.json else forecast.to_text()


def _status(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.status.command import build_status

    status = build_status(args.dir)
    return status.code, status.to_json() if args.json else status.to_text()
