"""Images of an earlier build, taken from its records instead of read and encoded again.

A record is taken if it was made of the same key, and of a source of the same size and version.
Tables say so of a complete dataset. Of a build that ended with too many rejects the sidecars
of its parts do. Only the stored image and its fixes come from a record. Class, split, columns and
row are made as for any other image, so the bytes are those of a build from scratch.

Each process reads all tables or sidecars, and keeps 28 bytes per record.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import DatasetError, ShardfeedError, UsageError, clip
from shardfeed.format import naming, tfrecord
from shardfeed.format.example import decode_example
from shardfeed.inspection.table_rows import table_rows
from shardfeed.storage import NotFoundError
from shardfeed.transforms import stores
from shardfeed.transforms.elements import ImageRef
from shardfeed.transforms.images.process import EncodedImage
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.options import ENCODER_REVISION, BuildOptions
from shardfeed.transforms.output.claim import Claim, describe_conflict, read_claim
from shardfeed.transforms.output.part_files import file_of, parse_sidecar
from shardfeed.transforms.output.part_rows import FIX_BITS
from shardfeed.transforms.planning.plan import fingerprint

_REVISION = 1  # of every complete dataset so far; when ``ENCODER_REVISION`` is raised, manifests must tell theirs
_LOG = logging.getLogger("shardfeed")
_REMEDY = "Give the flags of that build, or build without --retry_rejects."


class _Row(NamedTuple):
    """A record as a table or a sidecar has it; ``fixes``: bits of ``FIX_BITS``."""

    key: bytes
    source_bytes: int
    version: int
    offset: int
    bytes: int
    fixes: int


def require_reusable(url: str, options: BuildOptions) -> None:
    """Raises UsageError unless ``url`` holds records of a build with these options and codecs."""
    try:
        claim = _unfinished(url)
        manifest = None if claim else info(url).manifest
    except ShardfeedError as error:
        raise UsageError(f"--retry_rejects: {error}") from None
    versions = codec_versions(options.image)
    ours = Claim("", options.config(), versions)
    if claim is not None:
        theirs, what = Claim("", claim.config, claim.versions), "holds an unfinished build"
        parts = {name: parts for name, (_, parts) in claim.splits.items()}
        digest = int(claim.listing or "0", 16)
        is_same = not claim.discarding and fingerprint(digest, options, versions, parts) == claim.fingerprint
    else:
        assert manifest is not None
        theirs, what = Claim("", manifest.config, manifest.versions), "holds a dataset"
        is_same = theirs == ours and ENCODER_REVISION == _REVISION
        if not manifest.tables:
            raise UsageError(
                f"--retry_rejects: the dataset at {clip(url)} has no record tables, which say where each record lies. Build "
                "without --retry_rejects."
            )
    if not is_same:
        raise UsageError(f"--retry_rejects: {describe_conflict(clip(url), what, theirs, ours, remedy=_REMEDY)}")


class PreviousRecords:
    """The records at ``url``, but those of damaged tables; thread-safe.

    Raises:
        StorageError: the store kept failing.
    """

    def __init__(self, url: str) -> None:
        import numpy as np

        self._store = storage.open_store(url)
        self._files: list[str] = []
        sources, files, offsets, sizes, fixes = array("q"), array("I"), array("Q"), array("I"), array("I")
        claim = _unfinished(url)
        for name, lazy in _table_rows(info(url)) if claim is None else _part_rows(url, claim.fingerprint):
            try:
                rows = list(lazy)
            except DatasetError as error:
                _LOG.warning("%s Until then its images are made again.", error)
                continue
            for row in rows:
                sources.append(hash((row.key, row.source_bytes, row.version)))
                files.append(len(self._files))
                offsets.append(row.offset)
                sizes.append(row.bytes)
                fixes.append(row.fixes)
            self._files.append(name)
        order = np.argsort(np.asarray(sources))
        self._sources, self._files_of, self._offsets, self._sizes, self._fixes = (
            np.asarray(column)[order] for column in (sources, files, offsets, sizes, fixes)
        )

    def image(self, ref: ImageRef) -> EncodedImage | None:
        """The stored image of an unchanged source; None if none is there, or it is damaged."""
        wanted = hash((ref.key, ref.stat.size, ref.stat.version))
        at = int(self._sources.searchsorted(wanted))
        if at == len(self._sources) or self._sources[at] != wanted:
            return None
        name = self._files[self._files_of[at]]
        try:
            framed = self._store.read_range(name, int(self._offsets[at]), int(self._sizes[at]))
        except NotFoundError:  # swept or discarded meanwhile
            return None
        example = tfrecord.unframe(framed)
        if example is None:
            return None
        features = decode_example(example)
        if features["key"] != [ref.key]:
            return None
        height, width = features["size"]
        fixes = int(self._fixes[at])
        names = tuple(fix for fix, bit in FIX_BITS.items() if fixes & bit)
        return EncodedImage(features["image"][0], height, width, names, None)


def _unfinished(url: str) -> Claim | None:
    """The claim of a build that has published nothing; None if there is a dataset, or no claim."""
    store = storage.open_store(url)
    if store.stat(naming.MANIFEST) is not None or store.stat(naming.CLAIM) is None:
        return None
    return read_claim(stores.open_output(url))


def _table_rows(found: DatasetInfo) -> Iterator[tuple[str, Iterable[_Row]]]:
    names = ("key", "source_bytes", "version", "offset", "bytes", "fixes")
    shards = [shard for split in found.manifest.splits.values() for shard in split.shards]
    for shard, batches in zip(shards, table_rows(found, shards), strict=True):
        yield (
            shard.file,
            (
                _Row(key.encode(), size, version, offset, length, sum(map(FIX_BITS.__getitem__, fixes)))
                for batch in batches
                for key, size, version, offset, length, fixes in zip(
                    *(batch.column(name).to_pylist() for name in names), strict=True
                )
            ),
        )


def _part_rows(url: str, build: str) -> Iterator[tuple[str, Iterable[_Row]]]:
    store = storage.open_store(url)
    for name, _ in store.list(f"{naming.work_folder(build)}/"):
        sidecar = parse_sidecar(store.read(name)) if name.endswith(".json") else None
        if sidecar is not None and sidecar.result.records:
            columns = sidecar.rows.columns()
            ends = columns["bytes"].cumsum(dtype="i8").tolist()
            key_ends = columns["key_bytes"].cumsum(dtype="i8").tolist()
            yield (
                file_of(build, sidecar.result.split, sidecar.result),
                (
                    _Row(
                        sidecar.rows.keys[key_end - row["key_bytes"] : key_end],
                        int(row["source_bytes"]),
                        int(row["version"]),
                        end - int(row["bytes"]),
                        int(row["bytes"]),
                        int(row["fixes"]),
                    )
                    for row, end, key_end in zip(columns, ends, key_ends, strict=True)
                ),
            )
