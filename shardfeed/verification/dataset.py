"""Is the dataset what its manifest says? Fast: names and sizes. Deep: every byte of every file.

Causes are reported, not consequences. A file whose size or content is not the manifest's gets one
finding. What follows from it (class counts, keys that occur twice, lines of the index) is not
reported on top: consistency between records is checked only for files that are, byte for byte, the
published ones. Nothing is written: read-only rights suffice.

Deep costs one pass over the data on all cores, decoding included. It needs a few megabytes of
memory per thread and 24 bytes per record, for the proof that no key occurs twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from shardfeed import storage
from shardfeed.arguments import thread_count
from shardfeed.dataset.info import info
from shardfeed.errors import DatasetError, clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import Manifest, sealed_json
from shardfeed.format.record_index import index_files
from shardfeed.runtime import cores
from shardfeed.storage.base import Stat, Store
from shardfeed.verification.report import Finding, Report, no_file, rebuild, restore
from shardfeed.words import plural

__all__ = ["Finding", "Report", "verify"]

FOREIGN = "foreign file"
_MAX_THREADS = 16  # above it a bucket's bandwidth, not its latency, is the limit


def verify(directory: str | os.PathLike[str], *, deep: bool = False, threads: int | None = None) -> Report:
    """Compare the files in ``directory`` with its manifest.

    ``deep`` also reads every file: it compares checksums, checks every record, decodes every image,
    and proves that keys are unique and counts right. ``threads``: number of files checked at a time
    (default: one per core, at most 16).

    Raises:
        DatasetError: no dataset here (no manifest), or a manifest that is damaged or of an unknown
            version.
        UsageError: ``threads`` that cannot be.
    """
    threads = min(_MAX_THREADS, cores()) if threads is None else thread_count(threads)
    dataset = info(directory)
    store, manifest = storage.open_store(dataset.url), dataset.manifest
    if storage.is_unlistable(dataset.url):
        listed = _named_files(store, manifest, threads)
    else:
        listed = dict(store.list())
    findings = [*_manifest_itself(store, listed), *_names_and_sizes(store, manifest, listed)]
    named = [*_sizes(manifest), *(table.file for table in manifest.tables)]
    present = {name: listed[name].size for name in named if name in listed}
    records = 0
    if deep:
        from shardfeed.verification.deep import verify_deep  # not at the top: most verifications are fast ones

        with ThreadPoolExecutor(threads) as pool:
            more, records = verify_deep(store, manifest, present, pool)
        findings += more
    return Report(
        findings=tuple(findings),
        notes=tuple(_notes(manifest, listed, dataset.url)),
        files=len(present),
        bytes=sum(present.values()),
        records=records,
        deep=deep,
    )


def require_intact(url: str) -> None:
    """Checks names and sizes of the files of the dataset at ``url``, as ``verify`` does.

    Raises:
        DatasetError: it is damaged.
    """
    findings = [finding for finding in verify(url).findings if finding.what != FOREIGN]  # not this dataset's damage
    if findings:
        more = f"\nAnd {len(findings) - 1:,} more: shardfeed verify {clip(url)}" if len(findings) > 1 else ""
        raise DatasetError(f"the dataset at {clip(url)} is damaged: {findings[0]}{more}")


def _named_files(store: Store, manifest: Manifest, threads: int) -> dict[str, Stat]:
    """What a listing would say, without the files that the manifest does not name."""
    names = [naming.MANIFEST, naming.RUN, *_sizes(manifest), *(table.file for table in manifest.tables)]
    with ThreadPoolExecutor(threads) as pool:
        return {name: stat for name, stat in zip(names, pool.map(store.stat, names), strict=True) if stat is not None}


def _manifest_itself(store: Store, listed: Mapping[str, Stat]) -> list[Finding]:
    """Checks ``run.json``, if there is one, and the manifest against the checksum in it."""
    if naming.RUN not in listed:
        return []
    data = store.read(naming.RUN)
    try:
        record = json.loads(data)
        del record["crc32c"]
        expected = record["manifest_crc32c"] if sealed_json(record) == data else None
    except (ValueError, TypeError, LookupError, RecursionError):
        expected = None
    if expected is None:
        remedy = (
            f"Nothing else in the dataset depends on it: delete {naming.RUN} and rerun the build's command, which writes it "
            "again."
        )
        what = "canonical JSON with its own crc32c and the manifest's"
        return [Finding(naming.RUN, None, "run record", what, "another content", remedy)]
    if (found := to_hex(crc32c(store.read(naming.MANIFEST)))) == expected:
        return []
    what = f"crc32c in {naming.RUN}"
    return [Finding(naming.MANIFEST, None, what, expected, found, restore(naming.MANIFEST, store.url))]


def _sizes(manifest: Manifest) -> dict[str, int]:
    shards = {shard.file: shard.bytes for split in manifest.splits.values() for shard in split.shards}
    return shards | {file.file: file.bytes for file in manifest.files}


def _names_and_sizes(store: Store, manifest: Manifest, listed: Mapping[str, Stat]) -> list[Finding]:
    findings = []
    sizes = _sizes(manifest)
    for name, size in sizes.items():
        if name not in listed:
            findings.append(no_file(name, size, store.url))
        elif (found := listed[name].size) != size:
            findings.append(
                Finding(name, min(size, found), "size", f"{size} bytes", f"{found} bytes", restore(name, store.url))
            )
    for split in manifest.splits.values():
        for shard in split.shards:
            if (index := naming.index_name(shard.file)) not in sizes:
                findings.append(_no_entry("files", index, store.url))
    if manifest.schema_version > 1:
        findings += _tables(store, manifest, listed)
        indexes = (name for split in manifest.splits for name in index_files(split).values())
        findings += [_no_entry("files", name, store.url) for name in indexes if name not in sizes]
    tables = {table.file for table in manifest.tables}
    for name in sorted(listed.keys() - sizes.keys() - tables - {naming.MANIFEST, naming.RUN}):
        if _looks_like_ours(name) and not name.startswith(naming.PARTS + "/"):
            suffix = ".parquet" if naming.is_table(name) else ".tfrecord"
            remedy = f"Readers that list *{suffix} would read it too: move {name} out of {store.url}."
            findings.append(Finding(name, None, FOREIGN, "only files that the manifest names", "another", remedy))
    return findings


def _no_entry(where: str, name: str, url: str) -> Finding:
    return Finding(naming.MANIFEST, None, where, f"an entry for {name}", "none", rebuild(url))


def _tables(store: Store, manifest: Manifest, listed: Mapping[str, Stat]) -> Iterator[Finding]:
    """Compares the tables with the shards. Their sizes are not known: they depend on pyarrow."""
    tables = {table.file: table for table in manifest.tables}
    for shard in (shard for split in manifest.splits.values() for shard in split.shards):
        name = naming.table_name(shard.file)
        if name not in tables:
            yield _no_entry("tables", name, store.url)
    for name, table in tables.items():
        if name not in listed:
            yield Finding(name, None, "file", f"{table.rows} rows", "no file", restore(name, store.url))


def _looks_like_ours(name: str) -> bool:
    """Whether shardfeed, or a reader that lists *.tfrecord, would read a file of this name."""
    return naming.is_ours(name) or name.endswith(".tfrecord")


def _notes(manifest: Manifest, listed: Mapping[str, Stat], url: str) -> list[str]:
    notes = []
    if storage.is_unlistable(url):
        notes.append("A web server has no listing: files that the manifest does not name were not looked for.")
    if parts := [name for name in listed if name.startswith(naming.PARTS + "/")]:
        notes.append(
            f"{naming.PARTS}/ holds {len(parts)} files of a build in progress or stopped after it published; "
            "they are no part of the dataset, and rerunning the same build sweeps them."
        )
    if strangers := sorted(name for name in listed if not _looks_like_ours(name)):
        shown = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
        notes.append(f"{plural(len(strangers), 'file')} not of shardfeed: {shown}")
    return notes
