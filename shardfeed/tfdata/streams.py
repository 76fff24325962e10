"""One host's share of a split as a dataset: the two forms of ``load``, put together from their parts.

    training:    windows of blocks, or of record numbers → read ahead → batches
    evaluation:  spans of shards → batches → weights

The one decision: a cache changes where bytes come from and never which record comes next, so that it can be added or left
out in the middle of a training.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from shardfeed import storage
from shardfeed.accelerator.hosts import Host
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.local_copy import mirror
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.errors import UsageError
from shardfeed.sampling import order
from shardfeed.sampling.host_share import host_range, training_steps
from shardfeed.tfdata import batching, eval_padding, extra_columns, memory_cache, records
from shardfeed.tfdata.decode import Columns, Decoder, Wanted, chunk_decoder
from shardfeed.tfdata.explain_errors import explain_errors
from shardfeed.tfdata.tune_gcs import check_tuned
from shardfeed.warning import warn

_SPAN_BYTES = 16_000_000  # bytes an evaluation reader holds at most
_LOCAL_READERS = 1  # the read-ahead is a thread of its own already; reading costs a thirtieth of decoding
_REMOTE_READERS = 8  # requests in flight on gs://


@dataclass(frozen=True)
class Reader:
    """One host's share of a split: ``share`` records a batch, of which becomes what is ``wanted``."""

    info: DatasetInfo
    split: SplitInfo
    host: Host
    share: int
    wanted: Wanted
    as_dict: bool
    max_len: int | None
    cache: str | None

    def train(
        self, epochs: int | None, seed: int, window_bytes: int, start_step: int, watch: Repeats | None
    ) -> tf.data.Dataset:
        """The training stream from step ``start_step`` on; ``watch`` is told of the readings of one that ends."""
        split, share = self.split, self.share
        check_split(self.info, split)
        steps = training_steps(split.name, split.num_records, share, self.host.count, epochs, start_step)
        blocks = order.blocks_of(split.shards)
        window = order.window_blocks(blocks, window_bytes)
        if self.cache == "decoded":
            spans = order.spans_of(split.shards, _SPAN_BYTES)
            pieces, decode = records.number_pieces(blocks), self._decoded(spans)
        else:
            pieces = records.file_pieces(self._paths(range(len(split.shards))), blocks, self._readers())
            decode = self._decoder(self.wanted)
        start = start_step * share
        mine = host_range(split.num_records, self.host.index, self.host.count)
        stream = records.training_stream(blocks, pieces, seed=seed, window=window, mine=mine, start=start)
        if steps is not None:
            stream = stream.take(steps * share)
        # A window is read while the one before it is used up, which also hides the end of an epoch.
        stream = stream.prefetch(-(-split.num_records * window // len(blocks)))
        image = self.wanted.output(self.info.manifest.image)
        batches = batching.batches(stream, decode, self._form, share, image=image, start=start, drop_remainder=True)
        return batching.finished(batches, tf.data.INFINITE_CARDINALITY if steps is None else steps, watch)

    def evaluate(self, pad: bool) -> tf.data.Dataset:
        """One pass with weights."""
        split, share, hosts = self.split, self.share, self.host.count
        if not pad and max(hosts, self.host.replicas) > 1:
            raise UsageError(
                f"eval_remainder='partial': expected one device, found {_many(hosts, 'host')} with "
                f"{_many(self.host.replicas, 'device')} in all, which need batches of one size. Use 'pad'."
            )
        mine = host_range(split.num_records, self.host.index, hosts)
        spans = order.cut_spans(order.spans_of(split.shards, _SPAN_BYTES), mine)
        check_split(self.info, split, [split.shards[index] for index in sorted({span.shard for span in spans})])
        steps = -(-split.num_records // (share * hosts))
        rows = steps * share * hosts
        if pad and rows > split.num_records:
            warn(
                f"{rows - split.num_records} rows of weight 0 fill up the last batch of {split.name}: Keras' "
                "weighted_metrics= and a loss of its default reduction are exact, metrics= are not."
            )
        if self.cache == "decoded" and mine:
            stream, decode = tf.data.Dataset.range(len(mine)), self._decoded(spans)
        else:
            stream, decode = self._records(spans), self._decoder(self.wanted)
        image = self.wanted.output(self.info.manifest.image)
        batches = batching.batches(stream, decode, lambda found: found, share, image=image, drop_remainder=False)
        weigh = eval_padding.filled(share, rows / split.num_records) if pad else eval_padding.weighed
        batches = batches.map(lambda found: self._form(weigh(found)))
        if missing := steps - -(-len(mine) // share):  # one record fewer than another host can be one batch fewer
            batches = eval_padding.followed_by_padding(batches, missing)
        return batching.finished(batches, steps)

    def _form(self, found: Columns) -> Any:
        if self.as_dict:
            return found
        return tuple(found[name] for name in ("image", "label", "weight") if name in found)

    def _decoder(self, wanted: Wanted) -> Decoder:
        features = extra_columns.features(self.info, self.split, self.max_len) if self.as_dict else {}
        decode = chunk_decoder(self.info.manifest.image, replace(wanted, features={**wanted.features, **features}))
        if not self.as_dict:
            return decode
        return lambda records, positions: extra_columns.padded(decode(records, positions), features, self.max_len)

    def _decoded(self, spans: list[order.Span]) -> Decoder:
        """Looks records up by their number in ``spans``, all of which are decoded here."""
        image, wanted = self.info.manifest.image, self.wanted
        stored = replace(wanted, size=None, crop=None, features={"size": tf.io.FixedLenFeature([2], tf.int64)})
        kept = stored if wanted.crop == "random_resized" else wanted
        memory_cache.check_memory(image, kept, sum(span.records for span in spans))
        records, decode, pixels = self._records(spans), self._decoder(kept), kept.output(image)
        size = batching.chunk_size(pixels)
        whole = batching.batches(records, decode, lambda found: found, size, image=pixels, drop_remainder=False)
        with explain_errors(self.info, self.split.name):  # load reads the records, so load says which one is damaged
            return memory_cache.lookup(batching.with_options(whole.prefetch(2)), image, wanted)

    def _records(self, spans: list[order.Span]) -> tf.data.Dataset:
        paths = self._paths({span.shard for span in spans})
        return records.sequential_records(paths, spans, readers=self._readers())

    def _paths(self, used: Collection[int]) -> list[str]:
        """Where each shard is read; copies of those that are ``used`` where there is a folder for them."""
        shards = self.split.shards
        paths = [storage.join_url(self.info.url, shard.file) for shard in shards]
        if self.cache is not None and self.cache != "decoded":
            for index, copy in zip(used, mirror(self.info, [shards[index] for index in used], self.cache), strict=True):
                paths[index] = copy
        return paths

    def _readers(self) -> int:
        if not storage.is_remote(self.info.url) or self.cache not in (None, "decoded"):
            return _LOCAL_READERS
        check_tuned()
        return _REMOTE_READERS


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count > 1)}"
