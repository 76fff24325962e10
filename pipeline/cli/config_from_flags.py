"""The config that parsed flags of ``build`` or ``plan`` make."""

from __future__ import annotations

import argparse
import difflib
import importlib.util

from shardfeed.arguments import parse_image_size
from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.config.values import parse_bytes, parse_colour, parse_num_shards, read_class_list
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.verdict import parse_limit


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
