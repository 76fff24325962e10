"""Encoding begins while Beam is still being imported.

Beam's import and the graph's construction cost about two seconds of one core, while the other cores
idle. So a thread lists the input, makes the plan, claims the output and finishes parts by the very functions that the graph
uses, until the graph's own encode step takes over; the parts it finished are then there, as after an interrupted run. It is a
joined build in this process: claim, create-only files and fingerprints make it safe, and leaving it out changes no byte.

Only for local inputs (a second listing of a bucket costs requests) and only for small listings (its references stay in memory
beside the graph's; in a long build two seconds do not matter).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from pipeline.config import BuildConfig
from shardfeed import naming, storage
from shardfeed.errors import ShardfeedError
from transforms.assigning import split_by_part
from transforms.claim import claim_output
from transforms.elements import PartResult, Plan, RefBatch, unpack_refs
from transforms.encoding import PartEncoder
from transforms.images.versions import codec_versions
from transforms.listing import list_all
from transforms.plan import make_plan
from transforms.run_state import RUN
from transforms.totals import add_totals, count_batch, label_batch

MOST_IMAGES = 100_000  # about 15 MB of references, and a build of a minute or more


class HeadStart:
    """Encodes from the start of the block until ``take_over``; does nothing where it may not."""

    def __init__(self, config: BuildConfig) -> None:
        self._config = config
        self._stop = threading.Event()
        self._plan: Plan | None = None
        self._claimed = False
        self._results: dict[tuple[str, int], PartResult] = {}
        remote = any(storage.is_remote(root.url) for root in config.roots)
        self._thread = threading.Thread(target=self._run, name="head-start", daemon=True)
        self._wanted = config.in_process and not remote

    def __enter__(self) -> HeadStart:
        if self._wanted:
            RUN.head_start = self
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        RUN.head_start = None

    def settle(self, fingerprint: str) -> None:
        """Called with the graph's own fingerprint before it claims: another one means that the input changed in between."""
        if self._plan is None:
            self._end()  # too late to be of use; after this it cannot claim any more
        if self._plan is not None and self._plan.fingerprint != fingerprint:
            self._end()
            self._results.clear()
            if self._claimed:
                storage.open_store(self._config.output).delete(naming.CLAIM)

    def take_over(self) -> dict[tuple[str, int], PartResult]:
        """Ends the head start; the parts that it has finished."""
        self._end()
        return self._results

    def _end(self) -> None:
        self._stop.set()
        if self._wanted:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._encode()
        except ShardfeedError:
            return  # the graph meets the same thing at the same place, and reports it

    def _encode(self) -> None:
        config, batches, seen = self._config, [], 0
        for batch in list_all(config.roots):
            batches += label_batch(batch, config.options)
            seen += len(batch.refs)
            if self._stop.is_set() or seen > MOST_IMAGES * 100:
                return
        totals = add_totals(count_batch(batch, config.options) for batch in batches)
        if totals.candidates > MOST_IMAGES:
            return
        plan = make_plan(totals, config.options, codec_versions(config.options.image))
        self._claimed = claim_output(storage.open_store(config.output), plan, config.options, totals.digest)
        self._plan, RUN.total = plan, totals.candidates
        RUN.enter("encoding")
        encoder = PartEncoder(
            sources=[root.url for root in config.roots],
            output=config.output,
            plan=plan,
            options=config.options,
            threads=config.threads,
        )
        try:
            for (split, part), packed in _group(batches, plan, config.options.seed).items():
                if self._stop.is_set():
                    break
                self._keep(encoder.submit(split, part, [ref for piece in packed for ref in unpack_refs(piece)]))
            self._keep(encoder.flush())
        finally:
            encoder.close()

    def _keep(self, results: Iterable[PartResult]) -> None:
        for result in results:
            self._results[result.split, result.part] = result


def _group(batches: list[RefBatch], plan: Plan, seed: int) -> dict[tuple[str, int], list[bytes]]:
    grouped: dict[tuple[str, int], list[bytes]] = {}
    for batch in batches:
        if batch.refs:
            for part, refs in split_by_part(batch.refs, plan.splits[batch.split].parts, seed).items():
                grouped.setdefault((batch.split, part), []).append(refs)
    return grouped
