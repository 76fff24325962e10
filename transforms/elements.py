"""The elements on the arrows of the graph, and their bytes.

Bytes of images are never an element. A packed reference of 60-100 bytes crosses the shuffle
instead. References travel in batches because Beam costs 20-60 µs per element and step. They are
packed because the in-process engine holds 450-550 B for a packed reference and 900-1,340 B for a
NamedTuple. Elements are frozen. Their coders are ours (``steps/coders.py``).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from shardfeed.storage import Stat
from shardfeed.transforms.images.pixels.stats import Stats

_REF = struct.Struct("<HHQqBI")  # root, key bytes, size, version, known, crc32c
_ROW_BYTES = struct.Struct("<I")
_CRC_KNOWN, _HAS_ROW = 1, 2  # bits of ``known``: a crc32c; behind the key, the bytes of a row and the row


class ImageRef(NamedTuple):
    """One listed image: index of its root, key below the root, and what the listing says.

    ``row``: what a table says of it, packed by the table's own code; empty without a table.
    """

    root: int
    key: bytes
    stat: Stat
    row: bytes = b""


def pack_ref(ref: ImageRef) -> bytes:
    """A reference as bytes; concatenations of these are what ``unpack_refs`` reads."""
    stat = ref.stat
    known = _CRC_KNOWN * (stat.crc32c is not None) | _HAS_ROW * bool(ref.row)
    head = _REF.pack(ref.root, len(ref.key), stat.size, stat.version, known, stat.crc32c or 0)
    return head + ref.key + _ROW_BYTES.pack(len(ref.row)) + ref.row if ref.row else head + ref.key


def with_row(packed: bytes, row: bytes) -> bytes:
    """A packed reference without a row, with ``row``."""
    known = _REF.size - 5  # where it stands
    head = packed[:known] + bytes((packed[known] | _HAS_ROW,)) + packed[known + 1 :]
    return head + _ROW_BYTES.pack(len(row)) + row


def unpack_refs(packed: bytes) -> Iterator[ImageRef]:
    """The references in a batch."""
    for root, key, size, version, known, crc, row, _ in _walk(packed):
        yield ImageRef(root, key, Stat(size, version, crc if known & _CRC_KNOWN else None), row)


def unpack_keys(packed: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(key, row, packed reference) of each image in a batch, without building objects."""
    for _, key, _, _, _, _, row, piece in _walk(packed):
        yield key, row, piece


def _walk(packed: bytes) -> Iterator[tuple[int, bytes, int, int, int, int, bytes, bytes]]:
    at, end, head = 0, len(packed), _REF.size
    while at < end:
        root, length, size, version, known, crc = _REF.unpack_from(packed, at)
        stop, row = at + head + length, b""
        key = packed[at + head : stop]
        if known & _HAS_ROW:
            begin = stop + _ROW_BYTES.size
            stop = begin + _ROW_BYTES.unpack_from(packed, stop)[0]
            row = packed[begin:stop]
        yield root, key, size, version, known, crc, row, packed[at:stop]
        at = stop


_E = TypeVar("_E", bound="Element")


@dataclass(frozen=True)
class Element:
    """A small element whose bytes are JSON.

    Fields hold only JSON's own types, tuples and other elements.
    """

    def to_bytes(self) -> bytes:
        """Deterministic bytes."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls: type[_E], data: bytes) -> _E:
        """The element whose ``to_bytes`` gave ``data``."""
        return cls.from_raw(json.loads(data))

    @classmethod
    def from_raw(cls: type[_E], raw: Mapping[str, Any]) -> _E:
        """The element from its parsed JSON."""
        return cls(**{f.name: cls._restore(f.name, raw[f.name]) for f in fields(cls)})

    _nested: ClassVar[Mapping[str, type[Element]]] = {}  # fields that are an element
    _by_name: ClassVar[Mapping[str, type[Element]]] = {}  # fields that are {name: element}
    _several: ClassVar[Mapping[str, type[Element]]] = {}  # fields that are a tuple of elements

    @classmethod
    def _restore(cls, name: str, value: Any) -> Any:
        if inner := cls._by_name.get(name):
            return {key: inner.from_raw(item) for key, item in value.items()}
        if inner := cls._nested.get(name):
            return inner.from_raw(value)
        if inner := cls._several.get(name):
            return tuple(map(inner.from_raw, value))
        return _tuples(value)


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class RefBatch:
    """References of one split (``""`` before labelling), and what the listing skipped by reason.

    ``fault``: why none of them can be labelled, a key of ``FAULTS`` or ``FOLDER_FAULTS``, or why
    they are skipped, ``DROPPED`` or ``SKIPPED``. Such batches travel on, so that counting can
    report all of them.
    """

    split: str
    refs: bytes
    skipped: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""

    def to_bytes(self) -> bytes:
        """Length-prefixed head, then the references as they are."""
        head = json.dumps([self.split, self.skipped, self.fault], sort_keys=True).encode()
        return struct.pack("<I", len(head)) + head + self.refs

    @classmethod
    def from_bytes(cls, data: bytes) -> RefBatch:
        """The batch whose ``to_bytes`` gave ``data``."""
        (size,) = struct.unpack_from("<I", data)
        split, skipped, fault = json.loads(data[4 : 4 + size])
        return cls(split, data[4 + size :], skipped, fault)


@dataclass(frozen=True)
class SplitTotals(Element):
    """Sums over a split's candidates.

    ``by_class``: {name: (images, bytes)}. ``estimate``: encoded bytes. ``work``: see
    ``estimate_work``.
    """

    images: int = 0
    bytes: int = 0
    estimate: int = 0
    key_sum: int = 0
    by_class: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    work: int = 0


@dataclass(frozen=True)
class Totals(Element):
    """What the listing adds up to.

    ``digest`` and key sums are mod 2**128, so order and batches do not matter. ``faults``: {what:
    (count, a few examples)} of keys without a label. ``names``: images by what ``--class_map``
    maps. ``skipped_sample``: (root, key, bytes, version) of some files that were skipped by their
    suffix. ``group_splits``: {group: splits its images are in}, where ``--group_by`` does not
    choose them.
    """

    splits: Mapping[str, SplitTotals] = field(default_factory=dict)
    digest: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    names: Mapping[str, int] = field(default_factory=dict)
    skipped_sample: tuple[tuple[int, str, int, int], ...] = ()
    group_splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    _by_name: ClassVar[Mapping[str, type[Element]]] = {"splits": SplitTotals}

    @property
    def candidates(self) -> int:
        """Images that must be written or rejected."""
        return sum(split.images for split in self.splits.values())

    @property
    def listed(self) -> int:
        """Files listed: candidates and skipped ones."""
        return self.candidates + sum(self.skipped.values())


@dataclass(frozen=True)
class SplitPlan(Element):
    """A split's number of parts, and of shards if ``--num_shards`` fixes it.

    ``shards`` is None if the number follows from exact bytes later.
    """

    parts: int
    shards: int | None
    images: int


@dataclass(frozen=True)
class Plan(Element):
    """What every later step needs to know of the whole; made once, after the listing.

    ``label_kind``: as in the manifest.
    """

    fingerprint: str
    classes: tuple[str, ...]
    versions: Mapping[str, str]
    candidates: int
    splits: Mapping[str, SplitPlan]
    label_kind: str = "single"

    _by_name: ClassVar[Mapping[str, type[Element]]] = {"splits": SplitPlan}


@dataclass(frozen=True)
class PartResult(Element):
    """A finished part.

    ``key_sum`` covers written and rejected keys.
    """

    split: str
    part: int
    bytes: int
    records: int
    crc32c: int
    key_sum: int
    rejected: Mapping[str, int]
    fixes: Mapping[str, int]
    class_counts: Mapping[str, int]
    stats: Stats | None

    @property
    def images(self) -> int:
        """Written and rejected ones."""
        return self.records + sum(self.rejected.values())


@dataclass(frozen=True)
class Counts(Element):
    """Sums over all parts.

    ``images``: written + rejected, by split. ``class_counts``: {split: {class: records}}.
    """

    images: Mapping[str, int] = field(default_factory=dict)
    key_sums: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    fixes: Mapping[str, int] = field(default_factory=dict)
    class_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stats: Stats | None = None
    rejects_by_part: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Verdict(Element):
    """Whether the parts may become a dataset; ``code``: 0, or the exit code."""

    code: int
    message: str
    counts: Counts

    _nested: ClassVar[Mapping[str, type[Element]]] = {"counts": Counts}


@dataclass(frozen=True)
class PartFile(Element):
    """A part as packing sees it."""

    part: int
    bytes: int
    records: int
    crc32c: int


@dataclass(frozen=True)
class ShardPlan(Element):
    """The parts of one shard, in part order."""

    split: str
    index: int
    count: int
    parts: tuple[PartFile, ...]

    _several: ClassVar[Mapping[str, type[Element]]] = {"parts": PartFile}


@dataclass(frozen=True)
class ShardResult(Element):
    """A published shard, and the files with a line, a number or a row per record of it.

    ``offsets_crc32c``, ``classes_crc32c``: of its pieces of the split's index. ``table_digest``:
    of the rows of its table, 32 hex digits.
    """

    split: str
    file: str
    records: int
    bytes: int
    crc32c: int
    blocks: tuple[tuple[int, int], ...]
    index_bytes: int
    index_crc32c: int
    offsets_crc32c: int
    classes_crc32c: int
    table_digest: str


@dataclass(frozen=True)
class RejectsPlan(Element):
    """The slice of one rejects file: (split, part, rejects to skip, rejects to take) in order."""

    file: str
    slices: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class FileResult(Element):
    """A published file that is not a shard."""

    file: str
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class Duplicates(Element):
    """What is known of duplicates, if they were looked for.

    ``counts``: as the manifest has them. ``groups_bytes``, ``groups_crc32c``: of the file below
    ``_parts/`` that names the group of each record; 0 if there are no groups.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    files: tuple[FileResult, ...] = ()
    groups_bytes: int = 0
    groups_crc32c: int = 0

    _several: ClassVar[Mapping[str, type[Element]]] = {"files": FileResult}


def add_counts(*many: Mapping[str, int]) -> dict[str, int]:
    """Sum of counts by name."""
    total: dict[str, int] = {}
    for counts in many:
        add_into(total, counts)
    return total


def add_into(total: dict[str, int], counts: Mapping[str, int]) -> None:
    """Adds counts by name to ``total``."""
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count
