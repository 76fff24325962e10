"""The flags of ``build`` and ``plan``.

Names are a contract: they do not change, and abbreviations are refused. Choices and defaults come
from the options that the flags fill in.
"""

from __future__ import annotations

import argparse
from typing import get_args

from shardfeed.transforms.images.options import Channels, Format, ImageOptions, ResizeMode, Resizer
from shardfeed.transforms.options import MIN_SHARDS, MIN_SHARDS_IMAGES, BuildOptions


def add_build_flags(parser: argparse.ArgumentParser) -> None:
    """Adds every flag of ``build``.

    argparse does not require ``--input`` and ``--output``, so a misspelt one is named first.
    """
    _add_places(parser.add_argument_group("input and output"))
    _add_images(parser.add_argument_group("images"))
    _add_dataset(parser.add_argument_group("classes, splits, shards"))
    _add_run(parser.add_argument_group("the run"))


def _add_places(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        metavar="ROOT_OR_GLOB",
        help="folder, gs://, s3:// or az://bucket/folder, or glob; may be repeated. The class is the first folder below it",
    )
    group.add_argument("--output", metavar="DIR", help="new folder or gs://bucket/folder")


def _add_images(group: argparse._ArgumentGroup) -> None:
    add, default = group.add_argument, ImageOptions()
    add(
        "--image_size",
        default=str(default.height),
        metavar="N|HxW",
        help="stored size in pixels, HEIGHTxWIDTH (default %(default)s)",
    )
    add(
        "--resize",
        default=default.resize,
        choices=get_args(ResizeMode),
        help="crop: cover the size and cut out the centre; squash: stretch; pad: fit inside and fill the borders; shortest, "
        "longest: N is the length of that side, and the other keeps the ratio (default %(default)s)",
    )
    add("--channels", default=default.channels, choices=get_args(Channels), help="default %(default)s")
    add(
        "--image_format",
        default=default.format,
        choices=get_args(Format),
        help="format of the stored images; raw is uint8 pixels (default %(default)s)",
    )
    add("--quality", type=int, default=default.quality, metavar="1..100", help="of jpeg and webp (default %(default)s)")
    add(
        "--background",
        default="black",
        metavar="COLOUR",
        help="fills transparent pixels and the borders of pad: #rrggbb, black, gray or white (default %(default)s)",
    )
    add(
        "--keep_original",
        action="store_true",
        help="store an image's own bytes if it is an upright baseline JPEG, RGB or gray, of the right size",
    )
    add(
        "--resizer",
        default=default.resizer,
        choices=get_args(Resizer),
        help="simd is fast; pillow is Pillow's own, slower (default %(default)s)",
    )


def _add_dataset(group: argparse._ArgumentGroup) -> None:
    add, default = group.add_argument, BuildOptions()
    add(
        "--splits",
        default=default.splits,
        metavar="SPLITS",
        help="one name; or train=0.9,validation=0.1 (by a hash of the key); or folders, for ROOT/train/cat/1.jpg "
        "(default %(default)s)",
    )
    add(
        "--label_from", default="folders", choices=("folders",), help="where the class comes from (default %(default)s)"
    )
    add(
        "--class_list",
        metavar="FILE",
        help="text file that fixes the classes and their order, one per line; any other class folder is then an error",
    )
    shards = group.add_mutually_exclusive_group()
    shards.add_argument(
        "--num_shards",
        metavar="N|SPLIT=N,...",
        help="number of shards of the largest split, the others in proportion; or of each split by name",
    )
    shards.add_argument(
        "--shard_bytes",
        default=f"{default.shard_bytes // 10**6}MB",
        metavar="SIZE",
        help=f"target size of a shard (default %(default)s); a split of {MIN_SHARDS_IMAGES:,} images or more gets at least "
        f"{MIN_SHARDS} shards",
    )
    add("--seed", type=int, default=default.seed, help="seed of the order of records (default %(default)s)")


def _add_run(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--max_rejected",
        metavar="N|P%",
        help="how many images may be rejected because they cannot be used (default 1%%, at least 10)",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="number of threads on this machine, on Dataflow per process. If the input is a bucket, these threads read, and one "
        "thread per core encodes (default one per core, at least 8 for a bucket)",
    )
    add("--discard_incomplete", action="store_true", help="first remove an unfinished build from --output")
    add("--keep_parts", action="store_true", help="keep the finished parts under _parts/ after publishing")
    add(
        "--trust_manifest",
        action="store_true",
        help="if the output is complete, do not list the input again to see whether it has changed",
    )
    add("--cross_region", action="store_true", help="on Dataflow: accept buckets outside of --region")
    add(
        "--on_interrupt",
        choices=("cancel", "detach"),
        help="what Ctrl-C does to a job on an engine elsewhere: cancel it or let it go on (default: ask on a terminal, else "
        "detach). A job that ends with this command cannot be detached from",
    )
    add(
        "--runner",
        metavar="R",
        help="runner of Apache Beam; without it the build runs on this machine, without Beam. DirectRunner: Beam's engine in "
        "this process. PrismRunner, PortableRunner, FlinkRunner, SparkRunner: engines outside of this process "
        "(docs/how-to/engines.md). DataflowRunner: Google Cloud (run_dataflow.sh sets its options)",
    )
    add("--json", action="store_true", help="print the result as JSON")
