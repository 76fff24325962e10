"""One host's share of a split as a dataset: the two forms of ``load``.

    training:    windows of blocks, or of record numbers → read ahead → batches
    evaluation:  runs of records → batches → weights

A cache changes where bytes come from and never which record comes next, so it can be added or left
out in the middle of a training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
from shardfeed.sampling.host_share import Runs, host_range, runs_in
from shardfeed.sampling.steps import evaluation_plan, training_steps
from shardfeed.sampling.streams import host_streams, is_elastic, warn_if_not_elastic
from shardfeed.tfdata import batching, eval_padding, memory_cache, records
from shardfeed.tfdata.decode import ChunkDecoder, Columns, DecodeOptions, chunk_decoder
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
    options: DecodeOptions
    as_dict: bool
    cache: str | None

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks in which a training shuffles."""
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
        streams = host_streams(split.num_records, len(blocks), host, hosts)
        window = order.window_blocks(blocks, window_bytes, streams)
        waits = self._remote and self.cache is None
        readers = -(-_REMOTE_READERS // streams.slots) if waits else _LOCAL_READERS
        if self.cache == "decoded":
            read_runs, decode = records.number_runs(blocks), self._decode_all(range(split.num_records), versions)
        else:
            read_runs = self._record_runs(blocks, range(len(split.shards)), versions, readers)
            decode = self._decoder(self.options)
        # A window is read while the one before it is used up: by one thread for all streams, or,
        # where each request waits, by one thread per stream.
        ahead, start = -(-split.num_records * window // len(blocks)), start_step * share
        stream = records.training_stream(
            blocks, read_runs, seed=seed, window=window, streams=streams, start=start,
            count=None if steps is None else steps * share, ahead=ahead * waits,
        )  # fmt: skip
        if not waits:
            stream = stream.prefetch(ahead * streams.slots)
        image = self.options.output(self.info.manifest.image)
        batches = batching.batches(
            stream, decode, self._form, share, image=image, first=host + start * hosts, step=hosts, drop_remainder=True
        )
        watch = None if epochs is None else Repeats(split.name, epochs)
        return batching.finished(
            batches,
            tf.data.INFINITE_CARDINALITY if steps is None else steps,
            watch,
            requests=readers * streams.slots * waits,
        )

    def evaluate(self, *, pad: bool, epochs: int | None, start_step: int) -> tf.data.Dataset:
        """One pass with weights; ``epochs`` and ``start_step`` are refused."""
        split, share, hosts = self.split, self.share, self.host.count
        mine = host_range(split.num_records, self.host.index, hosts)
        blocks, runs, used = self._sequential_runs(mine)
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
            stream = self._in_order(blocks, runs, used, versions)
            decode = self._decoder(self.options)
        image = self.options.output(self.info.manifest.image)
        batches = batching.batches(stream, decode, lambda found: found, share, image=image, drop_remainder=False)
        rows = share if pad else None
        batches = batches.map(lambda found: self._form(eval_padding.weighed(found, plan.weight, rows)))
        # one record less than another host can be one batch less
        if missing := plan.steps - -(-len(mine) // share):
            batches = eval_padding.followed_by_padding(batches, missing)
        return batching.finished(batches, plan.steps, requests=self._requests_in_order)

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
        blocks, runs, used = self._sequential_runs(mine)
        stream = self._in_order(blocks, runs, used, versions)
        pixels = kept.output(image)
        size = batching.records_per_call(pixels)
        whole = batching.batches(stream, decode, lambda found: found, size, image=pixels, drop_remainder=False)
        # load reads the records, so load says which one is damaged
        with explain_errors(self.info, self.split.name):
            return memory_cache.lookup(
                batching.with_options(whole.prefetch(2), self._requests_in_order), image, options
            )

    def _sequential_runs(self, mine: range) -> tuple[Blocks, Runs, list[int]]:
        """The records ``mine`` in file order: blocks, runs in them, and the used shards."""
        blocks = self.split.blocks(merged_bytes=_RUN_BYTES)
        runs = runs_in(blocks.records, mine)
        return blocks, runs, sorted(set(blocks.shard[runs.block].tolist()))

    def _in_order(
        self, blocks: Blocks, runs: Runs, used: Sequence[int], versions: Mapping[str, int]
    ) -> tf.data.Dataset:
        readers = self._requests_in_order or _LOCAL_READERS
        return self._record_runs(blocks, used, versions, readers)(runs.block, runs.skip, runs.take)

    @property
    def _requests_in_order(self) -> int:
        """Requests in flight where records are read in file order."""
        return _REMOTE_READERS * self._remote

    @property
    def _remote(self) -> bool:
        """Whether records are read over a network."""
        return storage.is_remote(self.info.url) and self.cache in (None, "decoded")

    def _record_runs(
        self, blocks: Blocks, used: Sequence[int], versions: Mapping[str, int], readers: int
    ) -> records.RunReader:
        """Reader of ``blocks``; with a cache folder, the ``used`` shards are copied there first."""
        shards = self.split.shards
        paths = [storage.join_url(self.info.url, shard.file) for shard in shards]
        if self.cache is not None and self.cache != "decoded":
            for index, copy in zip(used, mirror(self.info, [shards[index] for index in used], self.cache), strict=True):
                paths[index] = copy
        if self._remote:
            known = ShardVersions(self.info.url, self.info.fingerprint, versions)
            return remote_runs(BlockReader(self.info.url, versions=known), blocks, readers)
        return records.record_runs(paths, blocks, readers)
