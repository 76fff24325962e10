"""From the sidecars of all parts to ``duplicates.jsonl`` and a group for each record in one.

It runs between the verdict and the first shard, in one process: pictures of all parts are compared.
Their fingerprints are held (55 bytes per image); keys only of those in groups, and of a group at
most as many as are written. Nothing depends on the order in which parts were made, so a build that
was killed here makes the same bytes again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.errors import IncompleteError, TooManyRejectsError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.format.columns import decode_features
from shardfeed.transforms.duplicates.groups import Groups, Numbers
from shardfeed.transforms.duplicates.near_pairs import CONFIRMED, join_equal, join_near, popcount
from shardfeed.transforms.elements import Counts, Duplicates, FileResult, Plan
from shardfeed.transforms.output.claim import refuse_published
from shardfeed.transforms.output.finished_parts import finished_sidecars, read_sidecars
from shardfeed.transforms.output.part_files import put_whole
from shardfeed.transforms.output.part_rows import HASH_KNOWN, MARK_KNOWN, MARKS, unpack_extras
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.words import printable_json

EDGES = 100  # lines per group
MEMBER = np.dtype([("split", "<u2"), ("part", "<u4"), ("row", "<u4"), ("group", "<i4")])
"""A record in a group, as the file for the record tables has it; ``row``: its number in its part."""


@dataclass(slots=True)
class Pictures:
    """What is compared: a row per record, of all parts one behind the other.

    ``parts``: names; ``first``: number of the first record of each part, and at the end the number
    of all. ``files``: size and crc32c of the source as one number. ``classes``, ``splits``:
    indexes; if records may have several labels, ``classes`` are the numbers of their
    ``label_sets``.
    """

    parts: list[tuple[str, int]]
    first: list[int]
    hashes: NDArray[np.uint64]
    marks: NDArray[np.uint64]
    files: NDArray[np.uint64]
    known: NDArray[np.uint8]
    classes: NDArray[np.int32]
    splits: NDArray[np.uint16]
    label_sets: dict[tuple[int, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, count: int) -> Pictures:
        """Room for ``count`` records."""
        wide, narrow = np.zeros((2, count), np.uint64), np.zeros(count, np.uint8)
        marks, classes, splits = np.zeros((count, 4), np.uint64), np.zeros(count, np.int32), np.zeros(count, np.uint16)
        return cls([], [0], wide[0], marks, wide[1], narrow, classes, splits)

    def same(self, one: Numbers, two: Numbers) -> NDArray[np.bool_]:
        """Whether candidates are near enough in their 256 bits."""
        bits: NDArray[np.bool_] = popcount(self.marks[one] ^ self.marks[two]).sum(1, dtype=np.int64) <= CONFIRMED
        return bits

    def equal(self, one: Numbers, two: Numbers) -> NDArray[np.bool_]:
        """Whether two pictures come from files of the same bytes."""
        same_file = (self.files[one] == self.files[two]) & (self.known[one] & self.known[two] & MARK_KNOWN != 0)
        same: NDArray[np.bool_] = same_file & (self.marks[one] == self.marks[two]).all(1)
        return same


def find_duplicates(store: WritableStore, plan: Plan, counts: Counts, *, fail: bool) -> Duplicates:
    """Compares all pictures, writes ``duplicates.jsonl``, and leaves the groups for the tables.

    Raises:
        TooManyRejectsError: there are duplicates, and they shall ``fail`` the build. The file lies
            below ``_parts/``.
        AlreadyBuiltError: this dataset was published meanwhile, and its parts are swept.
        IncompleteError: a part is gone.
    """
    written = sum(counts.images.values()) - sum(counts.rejected.values())
    pictures = _read(store, plan, written)
    names, crowded = group(pictures)
    sizes = np.bincount(names, minlength=1)
    members = np.flatnonzero(sizes[names] > 1)
    shown = _first_keys(store, plan, pictures, members, names)
    order = sorted(shown, key=lambda name: shown[name][0])
    lines = "".join(_lines(plan, pictures, order, shown, sizes)).encode()
    found = {
        "groups": len(order),
        "pairs": len(members) - len(order),
        **_kinds(pictures, members, names, shown),
        "flat": int((pictures.known & (HASH_KNOWN | MARK_KNOWN) == MARK_KNOWN).sum()),
        "crowded": crowded,
    }
    if fail and order:
        name = f"{naming.work_folder(plan.fingerprint)}/{naming.DUPLICATES}"
        store.publish(name, lines, durable=False)
        raise TooManyRejectsError(_failure(found, f"{store.url}/{name}"))
    store.publish(naming.DUPLICATES, lines)
    table = _members(pictures, members, names, order).tobytes()
    crc = crc32c(table)
    if table:
        put_whole(store, naming.groups_name(plan.fingerprint), table, crc)
    return Duplicates(found, (FileResult(naming.DUPLICATES, len(lines), crc32c(lines)),), len(table), crc)


def group(pictures: Pictures) -> tuple[Numbers, int]:
    """The group of each picture, and what ``join_near`` returns."""
    groups = Groups(len(pictures.hashes))
    hashed = np.flatnonzero(pictures.known & HASH_KNOWN)
    crowded = join_near(pictures.hashes[hashed], hashed, pictures.same, groups)
    marked = np.flatnonzero(pictures.known & MARK_KNOWN)
    order = marked[np.argsort(pictures.files[marked], kind="stable")]
    join_equal(pictures.files[order], order, pictures.equal, groups)
    return groups.all(), crowded


def _read(store: WritableStore, plan: Plan, written: int) -> Pictures:
    """The fingerprints of all records."""
    pictures, at = Pictures.of(written), 0
    for number, split in enumerate(sorted(plan.splits)):
        names = [(split, part) for part in range(plan.splits[split].parts)]
        for name, sidecar in zip(names, read_sidecars(store, plan.fingerprint, names), strict=True):
            if sidecar is None:
                continue
            rows = sidecar.rows.columns()
            end = at + len(rows)
            if end <= written:
                pictures.parts.append(name)
                pictures.first.append(end)
                pictures.hashes[at:end] = rows["hash"]
                for column, mark in enumerate(MARKS):
                    pictures.marks[at:end, column] = rows[mark]
                pictures.files[at:end] = rows["source_bytes"] << np.uint64(32) | rows["crc32c"]
                pictures.known[at:end] = rows["known"]
                pictures.classes[at:end] = rows["class"]
                if plan.label_kind == "multi":
                    known, extras = pictures.label_sets, unpack_extras(sidecar.rows.extras)
                    sets = (tuple(decode_features(features)["class"]) for features in extras)
                    pictures.classes[at:end] = [known.setdefault(each, len(known)) for each in sets]
                pictures.splits[at:end] = number
            at = end
    if at != written:
        refuse_published(store, plan.fingerprint)  # a joined build published it and swept its parts meanwhile
        raise IncompleteError(f"the parts hold {at:,} records instead of {written:,}. Rerun the same command.")
    return pictures


def _first_keys(
    store: WritableStore, plan: Plan, pictures: Pictures, members: Numbers, names: Numbers
) -> dict[int, list[tuple[bytes, int]]]:
    """Of each group the smallest keys, as many as are written, with their pictures' numbers."""
    kept: dict[int, list[tuple[bytes, int]]] = {}
    first = np.asarray(pictures.first)
    at = np.searchsorted(first, members, side="right") - 1
    wanted = {index: members[at == index] for index in np.unique(at).tolist()} if len(members) else {}
    for begin, numbers in zip(wanted, _keys(store, plan, pictures, wanted), strict=True):
        for key, number in zip(numbers, wanted[begin].tolist(), strict=True):
            few = kept.setdefault(int(names[number]), [])
            few.append((key, number))
            if len(few) > 4 * EDGES:
                few[:] = heapq.nsmallest(EDGES + 1, few)
    return {name: heapq.nsmallest(EDGES + 1, few) for name, few in kept.items()}


def _keys(store: WritableStore, plan: Plan, pictures: Pictures, wanted: dict[int, Numbers]) -> Iterator[list[bytes]]:
    """The keys of the wanted pictures of each part; ``wanted``: numbers by index of the part."""
    sidecars = finished_sidecars(store, plan.fingerprint, [pictures.parts[index] for index in wanted])
    for (index, numbers), sidecar in zip(wanted.items(), sidecars, strict=True):
        ends = np.cumsum(sidecar.rows.columns()["key_bytes"].astype(np.int64))
        rows = (numbers - pictures.first[index]).tolist()
        yield [sidecar.rows.keys[int(ends[row - 1]) if row else 0 : int(ends[row])] for row in rows]


def _kinds(
    pictures: Pictures, members: Numbers, names: Numbers, shown: dict[int, list[tuple[bytes, int]]]
) -> dict[str, int]:
    """Pairs of equal files, and groups with more than one label or split."""
    smallest = np.zeros(len(names) if len(members) else 0, np.int64)
    for name, keys in shown.items():
        smallest[name] = keys[0][1]
    firsts = smallest[names[members]] if len(members) else members
    mixed = {
        what: len(np.unique(names[members[column[members] != column[firsts]]]))
        for what, column in (("labels", pictures.classes), ("splits", pictures.splits))
    }
    return {"exact": int((pictures.equal(firsts, members) & (firsts != members)).sum()), **mixed}


def _lines(
    plan: Plan, pictures: Pictures, order: list[int], shown: dict[int, list[tuple[bytes, int]]], sizes: Numbers
) -> Iterator[str]:
    """A line per edge from the smallest key of a group to another one."""
    splits, labels = sorted(plan.splits), list[Any](plan.classes)
    if plan.label_kind == "multi":
        labels = [[plan.classes[index] for index in each] for each in pictures.label_sets]

    def both(column: NDArray[Any], names: Sequence[Any], pair: tuple[int, int]) -> list[Any]:
        return [names[column[number]] if column[number] >= 0 else None for number in pair]

    edges = [(shown[name][0][1], other) for name in order for _, other in shown[name][1:]]
    ones, others = np.array(edges, np.int64).reshape(-1, 2).T
    distances = popcount(pictures.hashes[ones] ^ pictures.hashes[others]).tolist()
    found = zip(edges, distances, pictures.equal(ones, others).tolist(), strict=True)
    for number, name in enumerate(order):
        (smallest, _), *rest = shown[name]
        for key, _ in rest:
            pair, distance, exact = next(found)
            line = {
                "group": number,
                "images": int(sizes[name]),
                "keys": [smallest.decode(), key.decode()],
                "labels": both(pictures.classes, labels, pair),
                "splits": both(pictures.splits, splits, pair),
                "distance": distance,
                "exact": exact,
            }
            yield printable_json(line) + "\n"


def _members(pictures: Pictures, members: Numbers, names: Numbers, order: list[int]) -> NDArray[Any]:
    """Where each picture of a group is, in the order of parts and rows."""
    number_of = np.zeros(int(names.max()) + 1 if len(names) else 0, np.int32)
    number_of[order] = np.arange(len(order))
    part = np.searchsorted(np.asarray(pictures.first), members, side="right") - 1
    table = np.empty(len(members), MEMBER)
    table["split"] = pictures.splits[members]
    table["part"] = np.array([number for _, number in pictures.parts], np.int64)[part] if len(members) else 0
    table["row"] = members - np.asarray(pictures.first)[part] if len(members) else 0
    table["group"] = number_of[names[members]]
    return table


def _failure(found: dict[str, int], file: str) -> str:
    pairs = found["pairs"]
    return (
        f"{pairs:,} pair{'s' * (pairs != 1)} of near-duplicates ({found['exact']:,} of equal files, {found['labels']:,} with two "
        f"labels, {found['splits']:,} across splits), and --duplicates fail allows none. Nothing was published. They are listed "
        f"in {file}\nRerun with --duplicates report to go on with them: the finished work is kept. Or remove images, then rerun "
        "with --discard_incomplete."
    )
