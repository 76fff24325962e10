"""One host's share of a split as arrays: the two forms of ``array_batches``.

    training:    windows of blocks → read ahead → decoded → batches
    evaluation:  blocks in order → decoded → batches with weights

A cache changes where bytes come from and never which record comes next.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

from shardfeed import storage
from shardfeed.accelerator.hosts import Host
from shardfeed.arrays.any_record import RecordForm
from shardfeed.arrays.blocks import BlockReader
from shardfeed.arrays.decoded_cache import DecodedImages
from shardfeed.arrays.decoder import DecodeOptions, RecordDecoder
from shardfeed.arrays.forms import Batch, BatchForm
from shardfeed.arrays.pipeline import batches
from shardfeed.arrays.read_ahead import REMOTE_READERS
from shardfeed.arrays.user_map import Empty, UserMap
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.local_copy import copy_remedy, mirror
from shardfeed.dataset.reader_arguments import check_decoded_fits
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.same_dataset import ShardVersions
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.dataset.shown_columns import ShownColumn
from shardfeed.decoding import image_decoder
from shardfeed.sampling.blocks import Blocks
from shardfeed.sampling.host_share import host_range, runs_in
from shardfeed.sampling.record_order import evaluation_windows, training_windows
from shardfeed.sampling.steps import evaluation_plan, training_steps
from shardfeed.sampling.streams import is_elastic, warn_if_not_elastic
from shardfeed.warning import warn

Reading = Callable[[int, Empty], Generator[Batch, None, None]]
"""From the number of the first batch, and what makes arrays of images, to the batches."""

_LOCAL_READERS = 1
_FOREVER = 1 << 62  # records of a stream


class _Source(NamedTuple):
    """The ``blocks`` to read, decoded ``batches`` of their windows, and a batch of ``padding``."""

    blocks: Blocks
    batches: Callable[..., Generator[Batch, None, None]]
    padding: Callable[[], Batch]


@dataclass(frozen=True)
class SplitStream:
    """One host's share of a split, ``share`` rows per batch.

    ``size``: height and width of an image. The other fields are as given to ``array_batches``.
    """

    info: DatasetInfo
    split: SplitInfo
    host: Host
    share: int
    threads: int
    size: tuple[int, int]
    crop: str | None
    crop_seed: int
    onehot: bool
    columns: tuple[ShownColumn, ...]
    as_dict: bool
    image_map: UserMap | None
    batch_map: UserMap | None
    cache: str | None

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of the split."""
        return self.split.blocks()

    def train(self, epochs: int | None, seed: int, window_bytes: int, start: int) -> tuple[Reading, int | None]:
        """A reading, and the number of the first batch that it does not give (None: endless)."""
        split, share, index, hosts = self.split, self.share, self.host.index, self.host.count
        versions = check_split(self.info, split)
        elastic = is_elastic(len(self.blocks), hosts)
        steps = training_steps(split.name, split.num_records, share, hosts, epochs, start, elastic=elastic)
        warn_if_not_elastic(split.name, len(self.blocks), hosts)
        end = None if steps is None else start + steps
        # Which streams a host reads depends on the pass, so any record may be one of its own.
        source = self._source(versions, range(split.num_records), None, 0)
        watch = None if epochs is None else Repeats(split.name, epochs)

        def read(begin: int, empty: Empty) -> Generator[Batch, None, None]:
            windows = training_windows(
                source.blocks, seed=seed, window_bytes=window_bytes, host=index, hosts=hosts, start=begin * share,
                count=None if end is None else (end - begin) * share,
            )  # fmt: skip
            positions = range(begin * share * hosts + index, _FOREVER, hosts)
            with closing(source.batches(windows, positions, empty=empty)) as stream:
                for step, batch in enumerate(stream, begin + 1):
                    if watch is not None:
                        watch(step == begin + 1, step == end)
                    yield batch

        return read, end

    def evaluate(self, *, pad: bool, epochs: int | None, start: int) -> tuple[Reading, int]:
        """A reading with weights, and its number of batches. Refuses ``epochs`` and ``start``."""
        split, share, index, hosts = self.split, self.share, self.host.index, self.host.count
        versions = check_split(self.info, split)
        # Every host has its own devices, so one host may have a smaller last batch.
        plan = evaluation_plan(split.name, split.num_records, share, hosts, hosts, pad=pad, epochs=epochs, start=start)
        if plan.padding:
            warn(
                f"{plan.padding} rows of weight 0 fill up the last batch of {split.name}: a mean of w * loss is exact, "
                "one of loss is not."
            )
        mine = host_range(split.num_records, index, hosts)
        source = self._source(versions, mine, plan.weight, share if pad else 0)

        def read(begin: int, empty: Empty) -> Generator[Batch, None, None]:
            windows = evaluation_windows(source.blocks, mine[begin * share :])
            with closing(source.batches(windows, mine[begin * share :], empty=empty)) as stream:
                yield from stream
            # This host's records can be used up before those of another one.
            for _ in range(begin + -(-max(0, len(mine) - begin * share) // share), plan.steps):
                yield source.padding()

        return read, plan.steps

    def _source(self, versions: Mapping[str, int], mine: range, weight: float | None, rows: int) -> _Source:
        """Of the records ``mine``, in these ``versions`` of the shards.

        ``weight`` and ``rows`` are those of ``BatchForm``.
        """
        image, classes = self.info.manifest.image, len(self.info.classes)
        stored = None if image.height is None or image.width is None else (image.height, image.width)
        url, blocks, remote = self.info.url, self.blocks, storage.is_remote(self.info.url)
        reader = BlockReader(url, versions=ShardVersions(url, self.info.fingerprint, versions))
        records, kept = RecordForm(self.info.label_kind, classes, self.columns), None
        if self.cache == "decoded":
            whole = stored if self.crop == "random_resized" else self.size
            check_decoded_fits(None if whole is None else math.prod(whole) * image.channels, len(mine))
            kept = DecodedImages(self.split.shards, records)
        elif self.cache is not None:
            blocks, reader = _copied(self.info, blocks, mine, self.cache)
            remote = False
        options = None
        if self.crop is not None or self.size != stored or self.image_map is not None or kept is not None:
            options = DecodeOptions(stored, self.crop, self.crop_seed, self.image_map, kept)
        decoder = RecordDecoder(
            reader, image_decoder(image.format), (*self.size, image.channels), records, options,
            keyed=self.as_dict or kept is not None or (options is not None and stored is None),
        )  # fmt: skip
        onehot = classes if self.onehot and self.info.label_kind == "single" else None
        form = BatchForm(onehot, self.as_dict, weight, rows, self.batch_map, self.crop_seed)
        decoded = partial(
            batches, decoder=decoder, form=form, kept=kept, batch_size=self.share,
            readers=REMOTE_READERS if remote else _LOCAL_READERS, threads=self.threads,
        )  # fmt: skip

        def padding() -> Batch:
            return form(decoder.no_rows(), self.split.num_records, lambda: "its padding, which has no record")

        return _Source(blocks, decoded, padding)


def _copied(info: DatasetInfo, blocks: Blocks, mine: range, folder: str) -> tuple[Blocks, BlockReader]:
    """``blocks`` in copies of their shards below ``folder``, and a reader of those.

    Only shards with records of ``mine`` are copied.
    """
    used = sorted(set(blocks.shard[runs_in(blocks.records, mine).block].tolist()))
    paths = mirror(info, [blocks.shards[index] for index in used], folder)
    files = {index: os.path.basename(path) for index, path in zip(used, paths, strict=True)}
    top = os.path.dirname(paths[0]) if paths else info.url
    copies = [replace(shard, file=files.get(index, shard.file)) for index, shard in enumerate(blocks.shards)]
    return replace(blocks, shards=copies), BlockReader(top, copy_remedy(info))
