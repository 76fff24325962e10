"""The flags of ``build`` and ``plan``.

Names are a contract: they do not change, and abbreviations are refused. Choices and defaults come
from the options that the flags fill in.
"""

from __future__ import annotations

import argparse
from typing import get_args

from shardfeed.format.columns import TYPES
from shardfeed.pipeline.config.table import KEY_COLUMNS
from shardfeed.pipeline.config.values import number
from shardfeed.transforms.encode.threads import IMAGE_TIMEOUT
from shardfeed.transforms.images.formats.table import DEFAULT_FORMATS, INPUT_FORMATS
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import Channels, Format, ImageOptions, ResizeMode, Resizer
from shardfeed.transforms.options import MIN_SHARDS, MIN_SHARDS_IMAGES, BuildOptions, LabelFrom


def add_build_flags(parser: argparse.ArgumentParser) -> None:
    """Adds every flag of ``build``.

    argparse does not require ``--input`` and ``--output``, so a misspelt one is named first.
    """
    _add_places(parser.add_argument_group("input and output"))
    _add_sources(parser.add_argument_group("what is read"))
    _add_images(parser.add_argument_group("images"))
    _add_dataset(parser.add_argument_group("classes, splits, shards"))
    _add_table(parser.add_argument_group("a table of metadata"))
    _add_run(parser.add_argument_group("the run"))


def _add_places(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        metavar="INPUT",
        help="folder, gs://, s3:// or az://bucket/folder, or glob; a .zip or a plain .tar; or @list.txt, @list.csv[:COLUMN], "
        "@list.parquet[:COLUMN] with a path or address of an image per row; may be repeated. The class is the first folder "
        "below it",
    )
    group.add_argument(
        "--list_root",
        metavar="ROOT",
        help="folder or bucket below which the images of every @list lie: keys are paths below it (default: the list's folder)",
    )
    group.add_argument("--output", metavar="DIR", help="new folder or gs://bucket/folder")


def _add_sources(group: argparse._ArgumentGroup) -> None:
    add, limits = group.add_argument, Limits()
    add(
        "--formats",
        default="default",
        metavar="LIST",
        help=f"formats of sources that are read, separated by commas: {', '.join(sorted(INPUT_FORMATS))}. The word default "
        f"stands for {', '.join(DEFAULT_FORMATS)}, which are read without the flag",
    )
    add(
        "--min_size",
        type=number("min_size", int),
        default=limits.min_size,
        metavar="PIXELS",
        help="reject sources whose shorter side has fewer pixels (default %(default)s)",
    )
    add(
        "--max_pixels",
        type=number("max_pixels", int),
        default=limits.max_pixels,
        metavar="N",
        help="reject sources of more pixels; a higher number takes more memory (default %(default)s)",
    )
    add(
        "--max_file_bytes",
        default=f"{limits.max_file_bytes >> 20}MiB",
        metavar="SIZE",
        help="reject larger files; a higher number takes more memory (default %(default)s)",
    )
    add(
        "--max_aspect",
        type=number("max_aspect", float),
        default=limits.max_aspect,
        metavar="RATIO",
        help="reject sources whose longer side is more than so many times the shorter (default %(default)s)",
    )


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
    add(
        "--channels",
        default=default.channels,
        choices=get_args(Channels),
        help="stored channels: three or one (default %(default)s)",
    )
    add(
        "--image_format",
        default=default.format,
        choices=get_args(Format),
        help="format of the stored images; raw is uint8 pixels (default %(default)s)",
    )
    add(
        "--quality",
        type=number("quality", int),
        default=default.quality,
        metavar="1..100",
        help="quality of stored jpeg and webp (default %(default)s)",
    )
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
        help="one name; or train=0.9,validation=0.1 (by a hash of the key); or folders, for ROOT/train/cat/1.jpg; or "
        "column:NAME of --metadata (default %(default)s)",
    )
    add(
        "--group_by",
        metavar="COLUMN|REGEX",
        help="what stays together in one split, such as a patient: column:NAME of --metadata, or an expression with "
        "(?P<group>...) that is searched in the key. With folders or column:NAME as --splits, a group in two splits is an error",
    )
    add(
        "--stratify",
        action="store_true",
        help="with ratios: cut each class by itself, so that its shares are exact to one image, or with --group_by to half of "
        "a group. New images may then move old ones to another split",
    )
    add(
        "--label_from",
        choices=get_args(LabelFrom),
        help="where the class comes from: a folder of the key, --label_regex, or a table; none: the images have no labels "
        "(default folders; table if --label_column is given)",
    )
    add(
        "--label_depth",
        type=number("label_depth", int),
        default=default.label_depth,
        metavar="N",
        help="which folder is the class: the Nth below the root or, with --splits folders, below the split (default %(default)s)",
    )
    add(
        "--label_regex",
        metavar="REGEX",
        help="regular expression of RE2, searched in the key with a slash before it; its group (?P<label>...) is the class",
    )
    add(
        "--class_map",
        metavar="FILE",
        help="CSV file with the header from,to, which renames and merges classes; an empty to drops the images of a class",
    )
    add(
        "--class_list",
        metavar="FILE",
        help="text file that fixes the classes and their order, one per line; any other class is then an error",
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
    add(
        "--seed",
        type=number("seed", int),
        default=default.seed,
        help="seed of the order of records (default %(default)s)",
    )


def _add_table(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--metadata",
        metavar="TABLE",
        action="append",
        help="CSV, JSON Lines or Parquet file, local or in a bucket, with one row per image. May be repeated for tables below "
        "--input: then each names its images by their paths below its own folder",
    )
    add(
        "--label_column",
        metavar="NAME",
        help="column of the class; a column of lists makes a dataset of several labels per image",
    )
    add(
        "--key_column",
        metavar="NAME",
        help="column that names the image by its path below --input, or its address (default: the first that is there of "
        f"{', '.join(KEY_COLUMNS)})",
    )
    add(
        "--key_format",
        metavar="TEXT",
        help="the path of an image, with {} for the value of the key column: 'train/{}.jpg' (default {})",
    )
    add(
        "--columns",
        metavar="NAME[:TYPE][=DEFAULT],...",
        help=f"further columns that records shall hold. Types: {', '.join(TYPES)}; TYPE[] is a list, TYPE[3] one of three "
        "values. DEFAULT stands for a value that is absent, which is an error without one (default: none)",
    )
    add(
        "--max_unmatched",
        metavar="N|P%",
        help="how many images may have no row (they are skipped), and how many rows may have no image (default 0)",
    )


def _add_run(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--max_rejected",
        metavar="N|P%",
        help="how many images may be rejected because they cannot be used (default 1%%, at least 10)",
    )
    add(
        "--duplicates",
        default="report",
        choices=("report", "fail", "off"),
        help="report: list near-duplicate images in duplicates.jsonl; fail: end the build with exit code 3 if there are any, "
        "and publish nothing; off: compare no images (default %(default)s)",
    )
    add(
        "--threads",
        type=number("threads", int),
        metavar="N",
        help="number of threads: of this machine, or of each process on Dataflow. If the input is a bucket, these threads read, "
        "and one thread per core encodes (default one per core, at least 8 for a bucket)",
    )
    add(
        "--image_timeout",
        type=number("image_timeout", int),
        default=IMAGE_TIMEOUT,
        metavar="SECONDS",
        help="CPU time that a codec may spend on one image before the image is rejected (default %(default)s)",
    )
    add(
        "--retry_rejects",
        metavar="DIR",
        help="finished dataset of the same flags, whose input was repaired: the build takes unchanged images from its records, "
        "and reads and encodes the others",
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
