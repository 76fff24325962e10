"""One host's share of a split as a dataset: the two forms of ``load``.

    training:    windows of blocks, or of record numbers → read ahead → batches
    evaluation:  runs of records → batches → weights

A cache changes where bytes come from and never which record comes next, so it can be added or left
out in the middle of a training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import tensorflow as tf

from shardfeed import storage
from shardfeed.accelerator.hosts import Host
from shardfeed.arrays.blocks import BlockReader
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.local_copy import mirror
from shardfeed.dataset.reader_arguments import check_decoded_fits
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.same_dataset import ShardVersions
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Blocks
from shardfeed.sampling.buffer_order import buffer_order
from shardfeed.sampling.host_share import host_range, runs_in
from shardfeed.sampling.record_order import ReadWindow, evaluation_windows, training_windows
from shardfeed.sampling.steps import evaluation_plan, training_steps
from shardfeed.sampling.streams import host_streams, is_elastic, warn_if_not_elastic
from shardfeed.tfdata import batching, eval_padding, memory_cache, records
from shardfeed.tfdata.decode import ChunkDecoder, Columns, DecodeOptions, chunk_decoder
from shardfeed.tfdata.explain_errors import explain_errors
from shardfeed.tfdata.remote_records import RemoteRecords
from shardfeed.warning import warn


@dataclass(frozen=True)
class SplitStream:
    """One host's share of a split, ``share`` records per batch.

    ``cache``: as given to ``load``.
    """

    info: DatasetInfo
    split: SplitInfo
    host: Host
    share: int
    options: DecodeOptions
    as_dict: bool
    cache: str | None

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of the split."""
        return self.split.blocks()

    def train(self, epochs: int | None, seed: int, window_bytes: int, start_step: int) -> tf.data.Dataset:
        """The stream from ``start_step`` on; a finite one that is read again warns."""
        split, share = self.split, self.share
        versions = check_split(self.info, split)
        blocks = self.blocks
        host, hosts = self.host.index, self.host.count
        steps = training_steps(
            split.name, split.num_records, share, hosts, epochs, start_step, elastic=is_elastic(len(blocks), hosts)
        )
        warn_if_not_elastic(split.name, len(blocks), hosts)
        start, count = start_step * share, None if steps is None else steps * share
        decode = self._decoder(self.options)
        stream: batching.Records
        if self._remote and self.cache is None:

            def windows(row: int) -> Iterator[ReadWindow]:
                left = None if count is None else count - row
                return training_windows(
                    blocks, seed=seed, window_bytes=window_bytes, host=host, hosts=hosts, start=start + row, count=left,
                    shuffle=buffer_order,
                )  # fmt: skip

            stream = RemoteRecords(self._block_reader(versions), windows, count)
        else:
            if self.cache == "decoded":
                read_runs, decode = records.number_runs(blocks), self._decode_all(range(split.num_records), versions)
            else:
                read_runs = records.record_runs(self._paths(range(len(split.shards))), blocks)
            streams = host_streams(split.num_records, len(blocks), host, hosts)
            window = order.window_blocks(blocks, window_bytes, streams)
            # A window is read while the one before it is used up.
            ahead = streams.slots * -(-split.num_records * window // len(blocks))
            stream = records.training_stream(
                blocks, read_runs, seed=seed, window=window, streams=streams, start=start, count=count
            ).prefetch(ahead)
        image = self.options.output(self.info.manifest.image)
        batches = batching.batches(
            stream, decode, self._form, share, image=image, first=host + start * hosts, step=hosts, drop_remainder=True
        )
        watch = None if epochs is None else Repeats(split.name, epochs)
        return batching.finished(batches, tf.data.INFINITE_CARDINALITY if steps is None else steps, watch)

    def evaluate(self, *, pad: bool, epochs: int | None, start_step: int) -> tf.data.Dataset:
        """One pass with weights; ``epochs`` and ``start_step`` are refused."""
        split, share, hosts = self.split, self.share, self.host.count
        mine = host_range(split.num_records, self.host.index, hosts)
        used = self._shards_of(mine)
        versions = check_split(self.info, split, [split.shards[index] for index in used])
        plan = evaluation_plan(
            split.name, split.num_records, share, hosts, self.host.replicas, pad=pad, epochs=epochs, start=start_step
        )
        if plan.padding:
            warn(
                f"{plan.padding} rows of weight 0 fill up the last batch of {split.name}: Keras' "
                "weighted_metrics= and a loss of its default reduction are exact, metrics= are not."
            )
        if self.cache == "decoded" and mine:
            stream, decode = tf.data.Dataset.range(len(mine)), self._decode_all(mine, versions)
        else:
            stream, decode = self._in_order(mine, versions), self._decoder(self.options)
        image = self.options.output(self.info.manifest.image)
        batches = batching.batches(stream, decode, lambda found: found, share, image=image, drop_remainder=False)
        rows = share if pad else None
        batches = batches.map(lambda found: self._form(eval_padding.weighed(found, plan.weight, rows)))
        # one record less than another host can be one batch less
        if missing := plan.steps - -(-len(mine) // share):
            batches = eval_padding.followed_by_padding(batches, missing)
        return batching.finished(batches, plan.steps)

    def _form(self, found: Columns) -> Any:
        if self.as_dict:
            return found
        if "label" not in found:  # (x, w) would be taken for images and labels
            return found["image"]
        return tuple(found[name] for name in ("image", "label", "weight") if name in found)

    def _decoder(self, options: DecodeOptions) -> ChunkDecoder:
        return chunk_decoder(self.info.manifest.image, options, ("key", "size") if self.as_dict else ())

    def _decode_all(self, mine: range, versions: Mapping[str, int]) -> ChunkDecoder:
        """Decode the records ``mine`` here; the decoder looks up their numbers in ``mine``.

        ``versions``: of the shards, as they were opened.
        """
        image, options = self.info.manifest.image, self.options
        if options.crop == "random_resized":  # which is cut out of whole images, each time anew
            kept = replace(options, size=None, crop=None)
            decode = chunk_decoder(image, kept, ("key", "size") if self.as_dict else ("size",))
        else:
            kept, decode = options, self._decoder(options)
        check_decoded_fits(kept.output(image).shape.num_elements(), len(mine))
        stream = self._in_order(mine, versions)
        pixels = kept.output(image)
        size = batching.records_per_call(pixels)
        whole = batching.batches(stream, decode, lambda found: found, size, image=pixels, drop_remainder=False)
        # load reads the records, so load says which one is damaged
        with explain_errors(self.info, self.split.name):
            return memory_cache.lookup(batching.with_options(whole.prefetch(2)), image, options)

    def _in_order(self, mine: range, versions: Mapping[str, int]) -> batching.Records:
        """The serialised records ``mine`` in file order."""
        blocks = self.blocks
        if self._remote:
            return RemoteRecords(
                self._block_reader(versions), lambda row: evaluation_windows(blocks, mine[row:]), len(mine)
            )
        runs = runs_in(blocks.records, mine)
        read_runs = records.record_runs(self._paths(self._shards_of(mine)), blocks)
        return cast(batching.Records, read_runs(runs.block, runs.skip, runs.take))

    def _shards_of(self, mine: range) -> list[int]:
        """Numbers of the shards that hold the records ``mine``."""
        blocks = self.blocks
        return sorted(set(blocks.shard[runs_in(blocks.records, mine).block].tolist()))

    @property
    def _remote(self) -> bool:
        """Whether records are read over a network."""
        return storage.is_remote(self.info.url) and self.cache in (None, "decoded")

    def _block_reader(self, versions: Mapping[str, int]) -> BlockReader:
        return BlockReader(self.info.url, versions=ShardVersions(self.info.url, self.info.fingerprint, versions))

    def _paths(self, used: Sequence[int]) -> list[str]:
        """Of all shards; with a cache folder, the ``used`` ones are copied there first."""
        shards = self.split.shards
        paths = [storage.join_url(self.info.url, shard.file) for shard in shards]
        if self.cache is not None and self.cache != "decoded":
            for index, copy in zip(used, mirror(self.info, [shards[index] for index in used], self.cache), strict=True):
                paths[index] = copy
        return paths
