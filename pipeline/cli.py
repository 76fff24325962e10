"""The command line. Nothing heavy is imported before a command needs it: ``--help`` has to answer at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from shardfeed._version import __version__
from shardfeed.errors import DatasetError, ShardfeedError, UsageError, clip

_BUILD_EXAMPLES = """\
examples:
  shardfeed build --input photos/ --output out/ --image_size 224
  shardfeed build --input 'gs://flowers/*/*.jpg' --output gs://datasets/flowers/v1 --splits train=0.9,validation=0.1
  shardfeed build --input photos/ --output out/ --runner FnApiRunner --direct_running_mode multi_processing --direct_num_workers 2

Flags may be spelled with hyphens. Any other Beam option is passed on (see Beam's documentation).
exit codes: 0 published and complete, 2 bad arguments, 3 too many rejects, 4 incomplete (rerun the same command),
5 conflicting output, 1 a bug."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code (see ``shardfeed build --help``)."""
    parser = _parser()
    known, rest = parser.parse_known_args(_underscored(sys.argv[1:] if argv is None else argv))
    if known.command is None:
        parser.print_help()
        return UsageError.code
    try:
        if rest and known.command != "build":
            raise UsageError(f"{known.command}: unknown argument {rest[0]}. See `shardfeed {known.command} --help`.")
        code: int = known.run(known, rest)
        return code
    except ShardfeedError as error:
        print(f"shardfeed: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; nothing more can be said
        return 0


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
    _add_build(commands.add_parser(
        "build", help="images to a committed dataset", description="Builds a dataset, or carries on with one that was interrupted.",
        epilog=_BUILD_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    ))  # fmt: skip
    _add_verify(commands.add_parser("verify", help="check a dataset", allow_abbrev=False,
                                    description="Checks names and sizes at once; with --deep every byte, record and image."))  # fmt: skip
    _add_inspect(commands.add_parser("inspect", help="show a dataset's card and first records", allow_abbrev=False,
                                     description="Prints the dataset's card and the first records of a split."))  # fmt: skip
    return parser


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_build)
    add = parser.add_argument
    add("--input", action="append", required=True, metavar="ROOT_OR_GLOB", help="folder, gs://bucket/folder or glob; may be repeated. The class is the first folder below the root")  # fmt: skip
    add("--output", required=True, metavar="DIR", help="new folder or gs://bucket/folder")
    add("--image_size", default="224", metavar="N|HxW", help="stored size in pixels, HEIGHTxWIDTH (default 224)")
    add("--resize", default="crop", choices=("crop", "squash", "pad", "shortest", "longest"), help="crop: cover and cut the centre (default); squash: stretch; pad: letterbox; shortest, longest: that side, the other in proportion")  # fmt: skip
    add("--channels", default="rgb", choices=("rgb", "gray"), help="default rgb")
    add("--image_format", default="jpeg", choices=("jpeg", "png", "webp", "raw"), help="of the stored images; raw = uint8 pixels (default jpeg)")  # fmt: skip
    add("--quality", type=int, default=95, metavar="1..100", help="of jpeg and webp (default 95)")
    add("--background", default="black", metavar="COLOUR", help="under transparent pixels and around padded ones: #rrggbb, black, gray, white (default black)")  # fmt: skip
    add("--keep_original", action="store_true", help="keep an image's own bytes where it is upright baseline RGB/gray JPEG of the right size")  # fmt: skip
    add("--resizer", default="simd", choices=("simd", "pillow"), help="simd (default) or Pillow's slower reference")
    shards = parser.add_mutually_exclusive_group()
    shards.add_argument("--num_shards", metavar="N|SPLIT=N,…", help="shards of the largest split, the others in proportion")
    shards.add_argument("--shard_bytes", default="100MB", metavar="SIZE", help="shards as near this size as possible, at least 16 from 1,600 images on (default 100MB)")  # fmt: skip
    add("--splits", default="train", metavar="SPLITS", help="one name (default train), train=0.9,validation=0.1 (by a hash of the key), or folders (ROOT/train/cat/…)")  # fmt: skip
    add("--label_from", default="folders", choices=("folders",), help="where the class comes from (default folders)")
    add("--class_list", metavar="FILE", help="locks the classes and their order: one a line; any other folder is an error")
    add("--max_rejected", metavar="N|P%", help="images that may be unusable (default 1%%, at least 10)")
    add("--seed", type=int, default=0, help="of the order of records (default 0)")
    add("--threads", type=int, default=0, metavar="N", help="encoding threads a process (default one a core, at least 8 from a bucket)")
    add("--discard_incomplete", action="store_true", help="first remove an unfinished build from --output")
    add("--keep_parts", action="store_true", help="leave the finished parts under _parts/ after publishing")
    add("--trust_manifest", action="store_true", help="take a finished build's word that its input has not changed")
    add("--runner", metavar="R", help="Beam runner (default: in this process, which is also what DirectRunner means)")
    add("--json", action="store_true", help="print the summary as JSON")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_verify)
    parser.add_argument("dir", metavar="DIR", help="dataset: folder or gs://bucket/folder")
    parser.add_argument("--deep", action="store_true", help="read everything: crc, records, keys, images")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.epilog = "exit codes: 0 in order, 2 bad arguments, 4 damaged, incomplete or no dataset."


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_inspect)
    parser.add_argument("dir", metavar="DIR", help="dataset: folder or gs://bucket/folder")
    parser.add_argument("split", nargs="?", metavar="SPLIT", help="whose records (default: the first split)")
    parser.add_argument("-n", type=int, default=10, metavar="N", help="records shown (default 10)")
    parser.add_argument("--sheet", metavar="FILE.png", help="also draw the records' images into a contact sheet")


def _build(args: argparse.Namespace, beam_args: list[str]) -> int:
    from pipeline.config import BuildConfig, parse_bytes, parse_colour, parse_image_size, parse_num_shards, read_class_list
    from pipeline.launch import run_build
    from transforms.images.options import ImageOptions
    from transforms.options import BuildOptions
    from transforms.reconciling import parse_limit

    if beam_args:
        from pipeline.beam_options import refuse_unknown

        refuse_unknown(beam_args)
    height, width = parse_image_size(args.image_size)
    image = ImageOptions(
        height=height, width=width, resize=args.resize, channels=args.channels, format=args.image_format, quality=args.quality,
        resizer=args.resizer, keep_original=args.keep_original, background=parse_colour(args.background),
    )  # fmt: skip
    options = BuildOptions(
        image=image,
        splits=args.splits,
        class_list=read_class_list(args.class_list) if args.class_list else None,
        num_shards=parse_num_shards(args.num_shards) if args.num_shards is not None else None,
        shard_bytes=parse_bytes(args.shard_bytes),
        seed=args.seed,
    )
    config = BuildConfig(
        inputs=tuple(args.input), output=args.output, options=options, max_rejected=parse_limit(args.max_rejected),
        threads=args.threads, runner=args.runner, beam_args=tuple(beam_args), keep_parts=args.keep_parts,
        discard_incomplete=args.discard_incomplete, trust_manifest=args.trust_manifest,
    )  # fmt: skip
    summary = run_build(config)
    print(summary.to_json() if args.json else summary.to_text())
    return 0


def _verify(args: argparse.Namespace, _rest: list[str]) -> int:
    from shardfeed.verify import verify

    report = verify(args.dir, deep=args.deep)
    print(report.to_json() if args.json else report)
    return 0 if report.ok else DatasetError.code


def _inspect(args: argparse.Namespace, _rest: list[str]) -> int:
    import shardfeed
    from shardfeed.card import card
    from shardfeed.records import first_records

    split = args.split or next(iter(shardfeed.info(args.dir).splits))
    records = first_records(args.dir, split, args.n)
    print(card(args.dir))
    print(f"\nfirst {len(records)} records of {split}:")
    for record in records:
        key = clip(record.key, 80)
        print(f"  {record.class_index:>4} {clip(record.label, 24):<24} {record.height}x{record.width}  {len(record.image):>9,} B  {key}")
    if args.sheet:
        _write_sheet(args.dir, split, args.n, args.sheet)
    return 0


def _write_sheet(directory: str, split: str, count: int, path: str) -> None:
    from shardfeed.contact_sheet import contact_sheet

    data = contact_sheet(directory, split, n=count)
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"--sheet {clip(path)} cannot be written: {error}. Give a file in a folder that exists.") from None
    print(f"\ncontact sheet: {path}")
