"""The config that parsed flags of ``build`` or ``plan`` make."""

from __future__ import annotations

import argparse
import difflib
import importlib.util

from shardfeed.arguments import parse_image_size
from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.config.labels import read_class_map
from shardfeed.pipeline.config.table import TableFlags, open_table
from shardfeed.pipeline.config.values import (
    parse_bytes,
    parse_colour,
    parse_num_shards,
    parse_rejected,
    parse_unmatched,
    read_class_list,
)
from shardfeed.transforms.images.formats.table import parse_formats, require_decoders
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.key_regex import group_column
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.options import BuildOptions, LabelFrom


def build_config(args: argparse.Namespace, rest: list[str]) -> BuildConfig:
    """The config of parsed flags; ``rest``: the arguments that our parser does not know.

    Raises:
        UsageError: any error that the arguments alone can show.
    """
    engine = Engine(args.runner, tuple(rest), args.on_interrupt)
    _refuse_unknown(args, engine)
    for name in ("input", "output"):
        if getattr(args, name) is None:
            raise UsageError(f"{args.command}: --{name} is required. See `shardfeed {args.command} --help`.")
    height, width = parse_image_size(args.image_size)
    formats = parse_formats(args.formats)
    require_decoders(formats)
    limits = Limits(
        min_size=args.min_size,
        max_pixels=args.max_pixels,
        max_file_bytes=parse_bytes(args.max_file_bytes, "--max_file_bytes", "64MiB"),
        max_aspect=int(args.max_aspect) if args.max_aspect == args.max_aspect // 1 else args.max_aspect,
    )
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
        formats=formats,
        limits=limits,
    )
    label_from: LabelFrom = args.label_from or ("folders" if args.label_column is None else "table")
    table = open_table(
        TableFlags(
            metadata=args.metadata or (),
            label_column=args.label_column,
            key_column=args.key_column,
            key_format=args.key_format,
            columns=args.columns,
            split=parse_splits(args.splits).column or None,
            group=group_column(args.group_by),
        ),
        label_from=label_from,
    )
    if args.max_unmatched is not None and args.metadata is None:
        raise UsageError("--max_unmatched counts rows of a table. Give --metadata TABLE too, or leave it out.")
    options = BuildOptions(
        image=image,
        label_from=label_from,
        label_depth=args.label_depth,
        label_regex=args.label_regex,
        class_map=read_class_map(args.class_map) if args.class_map is not None else None,
        multi_label=table is not None and table.many_labels,
        columns=() if table is None else table.columns,
        splits=args.splits,
        group_by=args.group_by,
        stratify=args.stratify,
        class_list=read_class_list(args.class_list) if args.class_list is not None else None,
        num_shards=parse_num_shards(args.num_shards) if args.num_shards is not None else None,
        shard_bytes=parse_bytes(args.shard_bytes),
        seed=args.seed,
        duplicates=args.duplicates != "off",
    )
    return BuildConfig(
        inputs=tuple(args.input),
        output=args.output,
        options=options,
        max_rejected=parse_rejected(args.max_rejected),
        fail_on_duplicates=args.duplicates == "fail",
        table=table,
        max_unmatched=parse_unmatched(args.max_unmatched),
        threads=args.threads,
        image_timeout=args.image_timeout,
        engine=engine,
        keep_parts=args.keep_parts,
        discard_incomplete=args.discard_incomplete,
        trust_manifest=args.trust_manifest,
        cross_region=args.cross_region,
        list_root=args.list_root,
        retry_rejects=args.retry_rejects,
    )


def _refuse_unknown(args: argparse.Namespace, engine: Engine) -> None:
    """Refuses an argument that neither shardfeed nor Beam knows.

    Only with ``--runner`` is Beam imported to ask it.
    """
    if not engine.args:
        return
    what, ours = args.command, [f"--{name}" for name in vars(args) if name not in ("command", "run")]
    for flag in (arg.partition("=")[0] for arg in engine.args if arg.startswith("--")):
        if near := difflib.get_close_matches(flag, ours, n=1, cutoff=0.75):
            raise UsageError(
                f"{what}: unknown argument {clip(flag)}; did you mean {near[0]}? See `shardfeed {what} --help`."
            )
    if engine.is_local:
        engine.check()
    elif importlib.util.find_spec("apache_beam") is not None:  # a plan needs no Beam, and a build asks for it later
        from shardfeed.pipeline.engines.flags import refuse_unknown

        refuse_unknown(engine.args, what)
