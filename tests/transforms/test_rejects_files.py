"""Rejects files: cut by lines, in (split, part, hash, key) order, from the sidecars alone."""

from __future__ import annotations

import json

import pytest

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.format.checksums import crc32c
from shardfeed.transforms.elements import Counts, FileResult, PartResult, RejectsPlan, Verdict
from shardfeed.transforms.output.part_files import Sidecar, commit_part
from shardfeed.transforms.output.part_rows import PartRows
from shardfeed.transforms.publish.rejects_files import LINES_A_FILE, cut_files, plan_rejects, write_rejects
from shardfeed.transforms.stores.base import WritableStore


def _verdict(by_part: list[tuple[str, int, int]], code: int = 0) -> Verdict:
    return Verdict(code, "", Counts(rejects_by_part=tuple(by_part)))


def _part(store: WritableStore, split: str, number: int, rejects: list[tuple[str, str, str]]) -> None:
    result = PartResult(split, number, 0, 0, 0, 0, {}, {}, {}, None)
    commit_part(store, "f", Sidecar(result, PartRows(), tuple(rejects), {}), b"")


def test_a_file_has_100_000_lines() -> None:
    assert LINES_A_FILE == 100_000
    assert plan_rejects(_verdict([("train", 0, 100_001)])) == [
        RejectsPlan("rejects-00000-of-00002.jsonl", (("train", 0, 0, 100_000),)),
        RejectsPlan("rejects-00001-of-00002.jsonl", (("train", 0, 100_000, 1),)),
    ]


def test_a_build_that_lost_images_writes_no_rejects_which_are_not_the_reason() -> None:
    assert plan_rejects(_verdict([("train", 0, 1)], code=IncompleteError.code)) == []


@pytest.mark.parametrize(
    ("by_part", "files"),
    [
        ([], []),
        ([("train", 4, 3)], [[("train", 4, 0, 3)]]),
        ([("train", 4, 4)], [[("train", 4, 0, 3)], [("train", 4, 3, 1)]]),
        ([("test", 1, 2), ("train", 0, 2)], [[("test", 1, 0, 2), ("train", 0, 0, 1)], [("train", 0, 1, 1)]]),
        ([("train", 0, 7)], [[("train", 0, 0, 3)], [("train", 0, 3, 3)], [("train", 0, 6, 1)]]),
    ],
    ids=str,
)
def test_files_are_cut_at_a_number_of_lines(
    by_part: list[tuple[str, int, int]], files: list[list[tuple[str, int, int, int]]]
) -> None:
    assert cut_files(by_part, 3) == [
        RejectsPlan(f"rejects-{i:05d}-of-{len(files):05d}.jsonl", tuple(slices)) for i, slices in enumerate(files)
    ]


def test_lines_are_json_in_part_order_written_once_and_below_the_parts_if_the_build_failed(
    store: WritableStore,
) -> None:
    _part(store, "test", 5, [("a/1.jpg", "EMPTY", "zero bytes"), ('cät/\n"2".jpg', "NAME", "x")])
    _part(store, "train", 0, [("b\\xff/3.jpg", "CORRUPT", "bad ÿ"), ("=\u202e4.jpg", "EMPTY", "\x9b")])
    (plan,) = cut_files([("test", 5, 2), ("train", 0, 2)], 100)

    result = write_rejects(store, "f", plan, _verdict([]))

    data = store.read("rejects-00000-of-00001.jsonl")
    assert data.decode() == (
        '{"key": "a/1.jpg", "reason": "EMPTY", "detail": "zero bytes"}\n'
        '{"key": "cät/\\n\\"2\\".jpg", "reason": "NAME", "detail": "x"}\n'
        '{"key": "b\\\\xff/3.jpg", "reason": "CORRUPT", "detail": "bad ÿ"}\n'
        '{"key": "=\\u202e4.jpg", "reason": "EMPTY", "detail": "\\u009b"}\n'
    )
    assert result == FileResult("rejects-00000-of-00001.jsonl", len(data), crc32c(data))
    before = store.stat(result.file)
    assert write_rejects(store, "f", plan, _verdict([])) == result
    assert store.stat(result.file) == before

    failed = write_rejects(store, "f", plan, _verdict([], code=3))
    assert (failed.file, store.read(failed.file)) == ("_parts/f/rejects/rejects-00000-of-00001.jsonl", data)


def test_each_file_is_written_by_itself_and_together_they_are_the_whole(store: WritableStore) -> None:
    _part(store, "train", 0, [(f"a/{i}.jpg", "EMPTY", "") for i in range(5)])
    _part(store, "train", 1, [(f"b/{i}.jpg", "EMPTY", "") for i in range(4)])

    results = [
        write_rejects(store, "f", plan, _verdict([])) for plan in cut_files([("train", 0, 5), ("train", 1, 4)], 4)
    ]

    keys = [[json.loads(line)["key"] for line in store.read(result.file).splitlines()] for result in results]
    assert keys == [
        ["a/0.jpg", "a/1.jpg", "a/2.jpg", "a/3.jpg"],
        ["a/4.jpg", "b/0.jpg", "b/1.jpg", "b/2.jpg"],
        ["b/3.jpg"],
    ]


def test_another_file_of_that_name_is_a_conflict(store: WritableStore) -> None:
    _part(store, "train", 0, [("a/1.jpg", "EMPTY", "")])
    store.create("rejects-00000-of-00001.jsonl", b"other\n")

    with pytest.raises(ConflictError, match="already holds other content"):
        write_rejects(store, "f", cut_files([("train", 0, 1)], 100)[0], _verdict([]))


def test_a_file_that_a_joined_build_published_before_it_swept_the_parts_is_taken(store: WritableStore) -> None:
    store.create("rejects-00000-of-00001.jsonl", b"{}\n")

    result = write_rejects(store, "f", cut_files([("train", 0, 1)], 100)[0], _verdict([]))
    assert result == FileResult("rejects-00000-of-00001.jsonl", 3, crc32c(b"{}\n"))


def test_a_missing_part_is_incomplete(store: WritableStore) -> None:
    with pytest.raises(IncompleteError) as found:
        write_rejects(store, "f", cut_files([("train", 3, 1)], 100)[0], _verdict([]))
    assert str(found.value) == "part 3 of train is gone. Rerun the same command."
