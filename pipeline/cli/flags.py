"""The flags of ``build`` and the config they make. Names are a contract: they do not change, and no abbreviation is taken."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
from typing import TYPE_CHECKING

from shardfeed.errors import UsageError, clip

if TYPE_CHECKING:  # the config's imports cost more than --help may
    from shardfeed.pipeline.config.build_config import BuildConfig
    from shardfeed.pipeline.config.engine import Engine

BUILD_EPILOG = """\
examples:
  shardfeed build --input photos/ --output out/ --image_size 224
  shardfeed build --input 'gs://flowers/*/*.jpg' --output gs://datasets/flowers/v1 --splits train=0.9,validation=0.1

Flags may be spelled with hyphens. With --runner, options of Apache Beam are taken too, such as
  --runner PortableRunner --job_endpoint localhost:8099

exit codes: 0 published and complete, 2 bad arguments, 3 too many rejects, 4 incomplete (rerun the same command),
5 conflicting output, 1 a bug."""

PLAN_EPILOG = """\
example:
  shardfeed plan --input 'gs://flowers/*/*.jpg' --output gs://datasets/flowers/v1 --splits train=0.9,validation=0.1

exit codes: 0 a forecast was made, or the input holds more files than --list_at_most; 2 bad arguments, 4 the input could
not be read; 3 and 5 where it is sure that the build would end with these, with a forecast or the build's own message."""


def add_build_flags(parser: argparse.ArgumentParser) -> None:
    """Adds every flag of ``build``; ``--input`` and ``--output`` are checked later, after a misspelt flag was named."""
    _where(parser.add_argument_group("where from, where to"))
    _images(parser.add_argument_group("images"))
    _dataset(parser.add_argument_group("classes, splits, shards"))
    _run(parser.add_argument_group("the run"))


def _where(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        metavar="ROOT_OR_GLOB",
        help="folder, gs://bucket/folder or glob; may be repeated. The class is the first folder below the root",
    )
    group.add_argument("--output", metavar="DIR", help="new folder or gs://bucket/folder")


def _images(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--image_size", default="224", metavar="N|HxW", help="stored size in pixels, HEIGHTxWIDTH (default 224)")
    add(
        "--resize",
        default="crop",
        choices=("crop", "squash", "pad", "shortest", "longest"),
        help="crop: cover and cut the centre (default); squash: stretch; pad: letterbox; "
        "shortest, longest: that side, the other in proportion",
    )
    add("--channels", default="rgb", choices=("rgb", "gray"), help="default rgb")
    add(
        "--image_format",
        default="jpeg",
        choices=("jpeg", "png", "webp", "raw"),
        help="of the stored images; raw = uint8 pixels (default jpeg)",
    )
    add("--quality", type=int, default=95, metavar="1..100", help="of jpeg and webp (default 95)")
    add(
        "--background",
        default="black",
        metavar="COLOUR",
        help="under transparent pixels and around padded ones: #rrggbb, black, gray, white (default black)",
    )
    add(
        "--keep_original",
        action="store_true",
        help="keep an image's own bytes where it is upright baseline RGB/gray JPEG of the right size",
    )
    add("--resizer", default="simd", choices=("simd", "pillow"), help="simd (default) or Pillow's slower reference")


def _dataset(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--splits",
        default="train",
        metavar="SPLITS",
        help="one name (default train), train=0.9,validation=0.1 (by a hash of the key), or folders (ROOT/train/cat/...)",
    )
    add("--label_from", default="folders", choices=("folders",), help="where the class comes from (default folders)")
    add(
        "--class_list",
        metavar="FILE",
        help="locks the classes and their order: one a line; any other folder is an error",
    )
    shards = group.add_mutually_exclusive_group()
    shards.add_argument(
        "--num_shards",
        metavar="N|SPLIT=N,...",
        help="shards of the largest split, the others in proportion; or of each split by name",
    )
    shards.add_argument(
        "--shard_bytes",
        default="100MB",
        metavar="SIZE",
        help="shards as near this size as possible, at least 16 from 1,600 images on (default 100MB)",
    )
    add("--seed", type=int, default=0, help="of the order of records (default 0)")


def _run(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--max_rejected", metavar="N|P%", help="images that may be unusable (default 1%%, at least 10)")
    add(
        "--threads",
        type=int,
        metavar="N",
        help="number of threads on this machine; on Dataflow per process (default one per core; from a "
        "bucket at least 8 that read, while one a core encodes)",
    )
    add("--discard_incomplete", action="store_true", help="first remove an unfinished build from --output")
    add("--keep_parts", action="store_true", help="leave the finished parts under _parts/ after publishing")
    add(
        "--trust_manifest",
        action="store_true",
        help="take a finished build's word that its input has not changed",
    )
    add("--cross_region", action="store_true", help="on Dataflow: accept buckets outside of --region")
    add(
        "--on_interrupt",
        choices=("cancel", "detach"),
        help="what Ctrl-C does to a job on an engine elsewhere (default: asks on a terminal, else detach); "
        "a job that ends with this command cannot be detached from",
    )
    add(
        "--runner",
        metavar="R",
        help="without it the build runs on this machine, without Apache Beam. DirectRunner: Beam's engine in this process. "
        "PrismRunner, PortableRunner, FlinkRunner, SparkRunner: engines beside or outside of this process (docs/engines.md). "
        "DataflowRunner: Google Cloud (run_dataflow.sh gives its options)",
    )
    add("--json", action="store_true", help="print the summary as JSON")


def build_config(args: argparse.Namespace, rest: list[str]) -> BuildConfig:
    """The config of parsed flags of ``build`` or ``plan``; ``rest`` holds the other arguments.

    Raises:
        UsageError: whatever the arguments alone can show.
    """
    from shardfeed.arguments import parse_image_size
    from shardfeed.pipeline.config.build_config import BuildConfig
    from shardfeed.pipeline.config.engine import Engine
    from shardfeed.pipeline.config.values import parse_bytes, parse_colour, parse_num_shards, read_class_list
    from shardfeed.transforms.images.options import ImageOptions
    from shardfeed.transforms.options import BuildOptions
    from shardfeed.transforms.publish.verdict import parse_limit

    engine = Engine(args.runner, tuple(rest), args.on_interrupt)
    _refuse_unknown(args, engine)
    for name in ("input", "output"):
        if getattr(args, name) is None:
            raise UsageError(f"{args.command}: --{name} is required. See `shardfeed {args.command} --help`.")
    height, width = parse_image_size(args.image_size)
    image = ImageOptions(
        height=height,
        width=width,
        resize=args.resize,
        channels=args.channels,
        format=args.image_format,
        quality=args.quality,
        resizer=args.resizer,
        keep_original=args.keep_original,
        background=parse_colour(args.background),
    )
    options = BuildOptions(
        image=image,
        splits=args.splits,
        class_list=read_class_list(args.class_list) if args.class_list is not None else None,
        num_shards=parse_num_shards(args.num_shards) if args.num_shards is not None else None,
        shard_bytes=parse_bytes(args.shard_bytes),
        seed=args.seed,
    )
    return BuildConfig(
        inputs=tuple(args.input),
        output=args.output,
        options=options,
        max_rejected=parse_limit(args.max_rejected),
        threads=args.threads,
        engine=engine,
        keep_parts=args.keep_parts,
        discard_incomplete=args.discard_incomplete,
        trust_manifest=args.trust_manifest,
        cross_region=args.cross_region,
    )


def _refuse_unknown(args: argparse.Namespace, engine: Engine) -> None:
    """Refuses an argument that nobody knows. Only with ``--runner`` is Beam imported, to ask it."""
    if not engine.args:
        return
    what, ours = args.command, [f"--{name}" for name in vars(args) if name not in ("command", "run")]
    for flag in (arg.partition("=")[0] for arg in engine.args if arg.startswith("--")):
        if near := difflib.get_close_matches(flag, ours, n=1, cutoff=0.8):
            raise UsageError(
                f"{what}: unknown argument {clip(flag)}; did you mean {near[0]}? See `shardfeed {what} --help`."
            )
    if engine.is_local:
        engine.check()
    elif importlib.util.find_spec("apache_beam") is not None:  # a plan needs no Beam, and a build asks for it later
        from shardfeed.pipeline.engines.flags import refuse_unknown

        refuse_unknown(engine.args, what)
