"""One part, from references to files: order, sums, twins, parts in flight, and the stop flag."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.format.hashing import MASK128, hash64, key_hash
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, pack_ref
from shardfeed.transforms.encode.in_flight import PartsInFlight
from shardfeed.transforms.output.part_files import read_sidecar
from shardfeed.transforms.sources.local import LocalSource
from tests.transforms.conftest import OPTIONS, PLAN, Folder, encode_part


def _by_hash(refs: list[ImageRef], seed: int = 0) -> list[bytes]:
    return [key for _, key in sorted((hash64("part", seed, ref.key), ref.key) for ref in refs)]


def test_records_lie_in_the_order_of_their_keys_hashes(either: Folder) -> None:
    refs = [either.add(b"%s/%d.png" % (name, i)) for name in (b"cat", b"dog") for i in range(15)]

    result = either.encode(refs, replace(OPTIONS, seed=5))
    assert [example["key"] for example in either.examples(result)] == [[key] for key in _by_hash(refs, 5)]


def test_rejects_lie_in_the_order_of_their_keys_hashes(either: Folder) -> None:
    refs = [either.add(b"cat/%d.png" % i, b"") for i in range(25)]

    result = either.encode(refs)
    assert [key.encode() for key, _, _ in either.rejects()] == _by_hash(refs)
    assert (result.records, result.bytes, result.rejected) == (0, 0, {"EMPTY": 25})


@pytest.mark.parametrize("threads", [1, 7])
def test_neither_threads_nor_the_order_of_references_change_a_byte(either: Folder, threads: int) -> None:
    refs = [either.add(b"cat/%d.png" % i) for i in range(20)]
    first = either.encode(refs, threads=2)
    for name in [name for name, _ in either.store.list()]:
        either.store.delete(name)

    assert either.encode(refs[::-1], threads=threads) == first


def test_the_result_adds_up(folder: Folder) -> None:
    refs = [folder.add(b"cat/1.png"), folder.add(b"cat/2.png"), folder.add(b"dog/3.png"), folder.add(b"dog/4.png", b"")]

    result = folder.encode(refs)

    sidecar = read_sidecar(folder.store, "f", "train", 0)
    assert sidecar is not None
    assert (result.split, result.part, result.records) == ("train", 0, 3)
    assert sidecar.rows.columns()["bytes"].sum() == result.bytes
    assert result.key_sum == sum(key_hash(ref.key) for ref in refs) & MASK128
    assert (result.rejected, result.class_counts, result.fixes) == ({"EMPTY": 1}, {"cat": 2, "dog": 1}, {})
    assert sidecar.versions == PLAN.versions


@pytest.mark.parametrize("first", [0, 1])
def test_the_same_key_in_two_roots_names_both(folder: Folder, first: int) -> None:
    one = folder.add(b"cat/1.png")

    encoder = folder.encoder(roots=2)

    with pytest.raises(UsageError) as found:
        encode_part(encoder, [one._replace(root=first), one._replace(root=1 - first)])
    assert str(found.value) == (
        f"cat/1.png is in two inputs: {folder.root} and {folder.root}1. A key is a record's name and must be unique: give one "
        "--input that holds both as folders, or rename, then rerun with --discard_incomplete."
    )
    assert list(folder.store.list()) == []


@pytest.mark.parametrize("version", [0, 1], ids=["unchanged", "of a changed file"])
def test_a_reference_that_an_engine_doubles_is_the_engine_s_fault_and_not_the_input_s(
    folder: Folder, version: int
) -> None:
    one = folder.add(b"cat/1.png")
    two = one._replace(stat=one.stat._replace(version=one.stat.version + version))

    with pytest.raises(IncompleteError) as found:
        encode_part(folder.encoder(), [one, two])
    assert str(found.value) == (
        "cat/1.png came twice out of one listing. Nothing was published. Rerun the same command; if it happens again, the "
        "engine loses or doubles elements: use another --runner."
    )
    assert list(folder.store.list()) == []


def test_one_part_more_than_is_waited_for_is_in_flight_so_that_the_pool_never_idles(folder: Folder) -> None:
    refs = [pack_ref(folder.add(b"cat/%d.png" % i)) for i in range(6)]
    flying = PartsInFlight(folder.encoder(), folder.run)

    yielded, most = [], 0
    for part in range(3):
        yielded += [result.part for result, _ in flying.submit("train", part, refs[2 * part : 2 * part + 2])]
        most = max(most, part + 1 - len(yielded))
    assert most == 1
    assert sorted(yielded + [result.part for result, _ in flying.flush()]) == [0, 1, 2]


def test_a_finished_part_is_not_done_again(folder: Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(3)]
    first = folder.encode(refs)
    for ref in refs:
        os.unlink(os.fsencode(folder.root) + b"/" + ref.key)  # it could not be done again

    again, kept = folder.encoder().begin("train", 0, [pack_ref(ref) for ref in refs]).result()
    assert (again, kept) == (first, 3)


def test_a_stop_before_a_part_does_nothing(folder: Folder) -> None:
    folder.run.stop.set()

    with pytest.raises(IncompleteError, match="rerun the same command"):
        folder.encode([folder.add(b"cat/1.png")])
    assert list(folder.store.list()) == []


def test_a_stop_in_the_middle_of_a_part_never_commits_a_torn_part(
    either: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [either.add(b"cat/%d.png" % i) for i in range(12)]
    original, seen = LocalSource.read, []

    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        seen.append(key)
        if len(seen) == 8:
            either.run.stop.set()
        return original(self, key, stat)

    monkeypatch.setattr(LocalSource, "read", read)

    with pytest.raises(IncompleteError, match="stopped before the dataset was complete"):
        either.encode(refs, threads=1)
    assert len(seen) == 8
    assert list(either.store.list()) == []
