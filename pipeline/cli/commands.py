"""``build``, ``plan`` and ``status``: what each adds to the command line, and what it runs."""

from __future__ import annotations

import argparse
import sys

from shardfeed.pipeline.cli.flags import BUILD_EPILOG, PLAN_EPILOG, add_build_flags, build_config

_DESCRIPTIONS = {
    "build": "Builds a dataset, or carries on with one that was interrupted.",
    "plan": "Lists the input, encodes a few hundred of its images, and forecasts the build with the same flags: images\n"
    "by class and split, bytes, shards, seconds here, hours and dollars on Dataflow. Writes nothing; needs no Beam.",
    "status": "Says what lies in an output: a complete dataset, a build that runs or was broken off and how far it is,\n"
    "or neither; from its files alone, wherever the build runs. Reads only.",
}
_EPILOGS = {
    "build": BUILD_EPILOG,
    "plan": PLAN_EPILOG,
    "status": "exit codes: 0 a complete dataset, 2 bad arguments, 3 too many images could not be used, 4 not complete or\n"
    "nothing there, 5 being discarded, or files that are not a build's.",
}


def add_command(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the flags of the command ``name`` to its parser, and what runs it."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = _DESCRIPTIONS[name], _EPILOGS[name]
    parser.set_defaults(run={"build": _build, "plan": _plan, "status": _status}[name])
    if name == "status":
        parser.add_argument("dir", metavar="DIR", help="output of a build: folder or gs://bucket/folder")
        parser.add_argument("--json", action="store_true", help="print the same as JSON")
        return
    add_build_flags(parser)
    if name == "plan":
        parser.add_argument(
            "--list_at_most",
            type=int,
            metavar="N",
            help="end without a forecast (exit code 0) if the input holds more files",
        )


def _build(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.run_build import run_build

    summary = run_build(build_config(args, rest), progress=sys.stderr)
    return 0, summary.to_json() if args.json else summary.to_text()


def _plan(args: argparse.Namespace, rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.plan.command import plan_build

    forecast = plan_build(build_config(args, rest), list_at_most=args.list_at_most)
    return forecast.code, forecast.to_json() if args.json else forecast.to_text()


def _status(args: argparse.Namespace, _rest: list[str]) -> tuple[int, str]:
    from shardfeed.pipeline.status.command import status_of

    status = status_of(args.dir)
    return status.code, status.to_json() if args.json else status.to_text()
