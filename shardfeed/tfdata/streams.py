"""One host's share of a split as a dataset: the two forms of ``load``.

    training:    windows of blocks, or of record numbers → read ahead → batches
    evaluation:  runs of records → batches → weights

A cache changes where bytes come from and never which record comes next, so it can be added or left
out in the middle of a training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from shardfeed import storage
from shardfeed.accelerator.hosts import Host
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.local_copy import mirror
from shardfeed.dataset.reader_arguments import check_decoded_fits
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Blocks, blocks_in
from shardfeed.sampling.host_share import Runs, host_range, runs_in
from shardfeed.sampling.steps import evaluation_plan, training_steps
from shardfeed.tfdata import batching, eval_padding, memory_cache, records
from shardfeed.tfdata.decode import ChunkDecoder, Columns, ImageOptions, chunk_decoder
from shardfeed.tfdata.explain_errors import explain_errors
from shardfeed.tfdata.remote_records import remote_runs
from shardfeed.warning import warn

_RUN_BYTES = 16_000_000  # bytes an evaluation reader holds at most
# the read-ahead is a thread of its own already; reading costs a thirtieth of decoding
_LOCAL_READERS = 1
_REMOTE_READERS = 8  # requests in flight


@dataclass(frozen=True)
class SplitStream:
    """One host's share of a split, ``share`` records per batch.

    ``cache``: as given to ``load``.
    """

    info: DatasetInfo
    split: SplitInfo
    host: Host
    share: int
    options: ImageOptions
    as_dict: bool
    cache: str | None

    def train(self, epochs: int | None, seed: int, window_bytes: int, start_step: int) -> tf.data.Dataset:
        """The stream from ``start_step`` on; a finite one that is read again warns."""
        split, share = self.split, self.share
        check_split(self.info, split)
        steps = training_steps(split.name, split.num_records, share, self.host.count, epochs, start_step)
        blocks = blocks_in(split.shards)
        window = order.window_blocks(blocks, window_bytes)
        if self.cache == "decoded":
            read_runs, decode = records.number_runs(blocks), self._decode_all(range(split.num_records))
        else:
            read_runs, decode = self._record_runs(blocks, range(len(split.shards))), self._decoder(self.options)
        start = start_step * share
        mine = host_range(split.num_records, self.host.index, self.host.count)
        stream = records.training_stream(blocks, read_runs, seed=seed, window=window, mine=mine, start=start)
        if steps is not None:
            stream = stream.take(steps * share)
        # A window is read while the one before it is used up, which also hides the end of an
        # epoch.
        stream = stream.prefetch(-(-split.num_records * window // len(blocks)))
        image = self.options.output(self.info.manifest.image)
        batches = batching.batches(stream, decode, self._form, share, image=image, start=start, drop_remainder=True)
        watch = None if epochs is None else Repeats(split.name, epochs)
        return batching.finished(batches, tf.data.INFINITE_CARDINALITY if steps is None else steps, watch)

    def evaluate(self, *, pad: bool, epochs: int | None, start_step: int) -> tf.data.Dataset:
        """One pass with weights; ``epochs`` and ``start_step`` are refused."""
        split, share, hosts = self.split, self.share, self.host.count
        mine = host_range(split.num_records, self.host.index, hosts)
        blocks, runs, used = self._sequential_runs(mine)
        check_split(self.info, split, [split.shards[index] for index in used])
        plan = evaluation_plan(
            split.name, split.num_records, share, hosts, self.host.replicas, pad=pad, epochs=epochs, start=start_step
        )
        if plan.padding:
            warn(
                f"{plan.padding} rows of weight 0 fill up the last batch of {split.name}: Keras' "
                "weighted_metrics= and a loss of its default reduction are exact, metrics= are not."
            )
        if self.cache == "decoded" and mine:
            stream, decode = tf.data.Dataset.range(len(mine)), self._decode_all(mine)
        else:
            stream = self._record_runs(blocks, used)(runs.block, runs.skip, runs.take)
            decode = self._decoder(self.options)
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
        return tuple(found[name] for name in ("image", "label", "weight") if name in found)

    def _decoder(self, options: ImageOptions) -> ChunkDecoder:
        return chunk_decoder(self.info.manifest.image, options, ("key", "size") if self.as_dict else ())

    def _decode_all(self, mine: range) -> ChunkDecoder:
        """Decode the records ``mine`` here; the decoder looks up their numbers in ``mine``."""
        image, options = self.info.manifest.image, self.options
        if options.crop == "random_resized":  # which is cut out of whole images, each time anew
            kept = replace(options, size=None, crop=None)
            decode = chunk_decoder(image, kept, ("key", "size") if self.as_dict else ("size",))
        else:
            kept, decode = options, self._decoder(options)
        check_decoded_fits(kept.output(image).shape.num_elements(), len(mine))
        blocks, runs, used = self._sequential_runs(mine)
        stream = self._record_runs(blocks, used)(runs.block, runs.skip, runs.take)
        pixels = kept.output(image)
        size = batching.records_per_call(pixels)
        whole = batching.batches(stream, decode, lambda found: found, size, image=pixels, drop_remainder=False)
        # load reads the records, so load says which one is damaged
        with explain_errors(self.info, self.split.name):
            return memory_cache.lookup(batching.with_options(whole.prefetch(2)), image, options)

    def _sequential_runs(self, mine: range) -> tuple[Blocks, Runs, list[int]]:
        """The records ``mine`` in file order: blocks, runs in them, and the used shards."""
        blocks = blocks_in(self.split.shards, merged_bytes=_RUN_BYTES)
        runs = runs_in(blocks.records, mine)
        return blocks, runs, sorted(set(blocks.shard[runs.block].tolist()))

    def _record_runs(self, blocks: Blocks, used: Sequence[int]) -> records.RunReader:
        """Reader of ``blocks``; with a cache folder, the ``used`` shards are copied there first."""
        shards = self.split.shards
        paths = [storage.join_url(self.info.url, shard.file) for shard in shards]
        remote = storage.is_remote(self.info.url)
        if self.cache is not None and self.cache != "decoded":
            remote = False
            for index, copy in zip(used, mirror(self.info, [shards[index] for index in used], self.cache), strict=True):
                paths[index] = copy
        if remote:
            return remote_runs(self.info.url, blocks, _REMOTE_READERS)
        return records.record_runs(paths, blocks, _LOCAL_READERS)
