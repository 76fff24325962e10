"""The commit: side files, then the manifest, then ``run.json``; then the parts are swept.

The manifest is a function of plan, totals, counts and shards, never of the clock or the machine.
So a joined or repeated build makes the same manifest and finds it there.

The sweep also deletes outcomes of other runs: most of their launchers are dead, and nobody else
would remove the file. A launcher that still waits finds the manifest instead
(``shardfeed.pipeline.run_build``).
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice

from shardfeed.errors import ConflictError, ShardfeedError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import ImageInfo, Manifest, RecordTable, Shard, SideFile, Split, sealed_json
from shardfeed.transforms.elements import Counts, Duplicates, FileResult, Plan, ShardResult, Totals, add_counts
from shardfeed.transforms.inputs.skipped import SkippedFile
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import discarded, hold_claim
from shardfeed.transforms.planning.totals import listing_of
from shardfeed.transforms.publish.mapped_index import publish_indexes, split_indexes
from shardfeed.transforms.publish.tfds_files import tfds_files
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.stores.base import WritableStore

_SWEEP_BATCH = 200  # names per deletion task; one each would cost more in the engine than in the store
_LOG = logging.getLogger("shardfeed")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What ``run.json`` keeps: the facts that depend on the clock, the machine or a path."""

    run_id: str
    started: str  # ISO 8601, UTC
    inputs: tuple[str, ...]
    runner: str
    list_root: str | None = None

    def to_json(self, manifest: bytes, skipped_sample: Sequence[SkippedFile] = ()) -> bytes:
        """Bytes of ``run.json``, with its own checksum and the manifest's.

        The sample is here for the launcher of an engine, which sees nothing else of the listing.
        """
        found = {
            "inputs": [_as_text(path) for path in self.inputs],
            "list_root": self.list_root and _as_text(self.list_root),
        }
        sample = {"skipped_sample": [list(file) for file in skipped_sample]} if skipped_sample else {}
        fields = {name: value for name, value in {**asdict(self), **found}.items() if value is not None}
        return sealed_json({**fields, "manifest_crc32c": to_hex(crc32c(manifest)), **sample})


def _as_text(path: str) -> str:
    """A path may hold bytes that are not UTF-8; the file must be JSON all the same."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def commit(
    store: WritableStore,
    *,
    plan: Plan,
    totals: Totals,
    counts: Counts,
    shards: Iterable[ShardResult],
    rejects: Iterable[FileResult],
    duplicates: Duplicates,
    options: BuildOptions,
    record: RunRecord,
    unmatched: bytes,
) -> Manifest:
    """Publishes what is left and at last the manifest, if the output is still this build's.

    ``unmatched``: content of ``unmatched.jsonl``; empty if everything matches.

    Raises:
        ConflictError: the output holds a shard that is not this dataset's, or another manifest.
        IncompleteError: another command has discarded the build while it ran.
    """
    hold_claim(store, plan.fingerprint)
    results = sorted(shards, key=lambda shard: (shard.split, shard.file))
    splits = _splits(plan, counts, results)
    image = _image_info(counts, options)
    texts = {
        naming.CLASSES: "".join(f"{class_line(name)}\n" for name in plan.classes).encode(),
        **tfds_files(
            classes=plan.classes,
            splits=splits,
            image=image,
            columns=options.columns,
            label_kind=plan.label_kind,
        ),
        **({naming.UNMATCHED: unmatched} if unmatched else {}),
    }
    files = [SideFile(naming.index_name(s.file), s.index_bytes, to_hex(s.index_crc32c)) for s in results]
    files += [SideFile(name, len(data), to_hex(crc32c(data))) for name, data in texts.items()]
    indexes = split_indexes(plan.fingerprint, results)
    others = [*rejects, *duplicates.files, *(index.file() for index in indexes)]
    files += [SideFile(file.file, file.bytes, to_hex(file.crc32c)) for file in others]
    tables = [RecordTable(naming.table_name(s.file), s.records, s.table_digest) for s in results]
    manifest = Manifest(
        fingerprint=plan.fingerprint,
        config=options.config(),
        versions=plan.versions,
        classes=plan.classes,
        listing=listing_of(totals),
        listed=totals.listed,
        written=sum(split.records for split in splits.values()),
        rejected=counts.rejected,
        skipped=totals.skipped,
        fixes=counts.fixes,
        image=image,
        splits=splits,
        files=tuple(sorted(files, key=lambda file: file.file)),
        tables=tuple(tables),
        duplicates=duplicates.counts or None,
        columns=tuple(column.to_raw() for column in options.columns),
        label_kind=plan.label_kind,
        formats=options.image.formats,
    )
    still_to_come = {*texts, *(index.name for index in indexes)}
    named = {shard.file for shard in results} | {file.file for file in files} | {table.file for table in tables}
    _compare_with_store(store, named, still_to_come)
    publish_indexes(store, plan.fingerprint, indexes)
    for name, data in sorted(texts.items()):
        store.publish(name, data)
    data = manifest.to_json()
    store.publish(naming.MANIFEST, data)
    store.create(naming.RUN, record.to_json(data, totals.skipped_sample))
    return manifest


def class_line(name: str) -> str:
    """A line of ``classes.txt``: the class, control characters and backslashes as JSON escapes."""
    if "\\" in name or any(ord(char) < 32 for char in name):
        return json.dumps(name, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return name


def _splits(plan: Plan, counts: Counts, shards: Iterable[ShardResult]) -> dict[str, Split]:
    by_split: dict[str, list[ShardResult]] = {name: [] for name in plan.splits}
    for shard in shards:
        by_split[shard.split].append(shard)
    return {
        name: Split(
            records=sum(shard.records for shard in own),
            bytes=sum(shard.bytes for shard in own),
            class_counts=add_counts(dict.fromkeys(plan.classes, 0), counts.class_counts[name]),
            shards=tuple(Shard(s.file, s.records, s.bytes, to_hex(s.crc32c), s.blocks) for s in own),
        )
        for name, own in by_split.items()
    }


def _image_info(counts: Counts, options: BuildOptions) -> ImageInfo:
    image = options.image
    varies = image.resize in ("shortest", "longest")
    channels = 1 if image.channels == "gray" else 3
    nothing = (0,) * channels  # if the sample of a mostly rejected dataset hit no good image
    pixels, sums, squares = counts.stats or (1, nothing, nothing)
    means = [value / pixels for value in sums]
    variances = [square / pixels - mean * mean for square, mean in zip(squares, means, strict=True)]
    return ImageInfo(
        height=None if varies else image.height,
        width=None if varies else image.width,
        channels=channels,
        format=image.format,
        mean=tuple(round(mean, 3) for mean in means),
        std=tuple(round(math.sqrt(max(0.0, variance)), 3) for variance in variances),
    )


def _compare_with_store(store: WritableStore, named: Set[str], still_to_come: Set[str]) -> None:
    """Compares with one listing, for a case that no claim shows.

    The same command may have discarded this build, and claimed anew.
    """
    there = {name for name, _ in store.list() if naming.is_published_name(name)}
    if stray := sorted(name for name in there - named if naming.is_shard(name) or naming.is_split_index(name)):
        raise ConflictError(
            f"{store.url} holds shards that are not this dataset's: {', '.join(stray[:3])}. Another build wrote here. "
            "Remove them with --discard_incomplete, or give another --output."
        )
    if named - there - still_to_come:
        raise discarded(store.url)


def leftovers(store: WritableStore, *keep: str, keep_parts: bool) -> Iterator[tuple[str, ...]]:
    """Batches of names below ``_parts/`` that a finished build does not need.

    Neither ``keep`` nor the claim is among them. With ``keep_parts`` there are none.
    """
    if keep_parts:
        return
    kept = {naming.CLAIM, *keep}
    names = (name for name, _ in store.list(naming.PARTS + "/") if name not in kept and naming.is_ours(name))
    while batch := tuple(islice(names, _SWEEP_BATCH)):
        yield batch


def sweep(store: WritableStore, names: Iterable[str]) -> int:
    """Deletes names; returns how many could not be deleted.

    Failures are one warning, because the dataset is complete all the same.
    """

    def delete(name: str) -> tuple[str, ShardfeedError] | None:
        try:
            store.delete(name)
        except ShardfeedError as error:
            return name, error
        return None

    failed = [failure for failure in side_by_side(store.url, delete, names) if failure is not None]
    if failed:
        name, error = failed[0]
        more = f" and {len(failed) - 1:,} more" if len(failed) > 1 else ""
        _LOG.warning("could not delete %s/%s%s: %s", store.url, name, more, error)
    return len(failed)


def drop_claim(store: WritableStore) -> int:
    """Deletes the claim, after everything else below ``_parts/``; returns 1 if that failed."""
    failed = sweep(store, [naming.CLAIM])
    store.prune(naming.PARTS)
    return failed


def finish(store: WritableStore, record: RunRecord, *, keep_parts: bool) -> None:
    """Does what a build stopped after its manifest left undone: ``run.json`` and the sweep.

    If this user may not write or delete, that is a warning: the dataset is complete all the same.
    """
    try:
        if store.stat(naming.RUN) is None:
            store.create(naming.RUN, record.to_json(store.read(naming.MANIFEST)))
        for names in leftovers(store, keep_parts=keep_parts):
            sweep(store, names)
        if store.stat(naming.CLAIM) is not None:
            drop_claim(store)
        store.prune(naming.PARTS)
    except ShardfeedError as error:
        _LOG.warning("the dataset is complete, but could not be tidied: %s", error)
