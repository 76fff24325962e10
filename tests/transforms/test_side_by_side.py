"""Requests to a bucket overlap, in whatever order they are answered; on a disk they do not."""

from __future__ import annotations

import threading

import pytest

from shardfeed.storage import StorageError
from shardfeed.transforms.run.concurrent_requests import REQUESTS, side_by_side


def test_requests_to_a_bucket_are_under_way_together_and_answers_keep_their_order() -> None:
    together = threading.Barrier(REQUESTS, timeout=30)  # opens only when as many are waiting

    def ask(item: int) -> int:
        together.wait()
        return item * 10

    items = range(2 * REQUESTS)
    assert side_by_side("gs://bucket/out", ask, items) == [item * 10 for item in items]


def test_on_a_disk_the_calling_thread_does_one_after_the_other() -> None:
    here = threading.current_thread()
    assert side_by_side("/out", lambda item: (item, threading.current_thread() is here), "ab") == [
        ("a", True),
        ("b", True),
    ]


@pytest.mark.parametrize("url", ["gs://bucket/out", "/out"])
def test_a_failure_is_raised(url: str) -> None:
    def fail(_item: int) -> None:
        raise StorageError("gone")

    with pytest.raises(StorageError, match="gone"):
        side_by_side(url, fail, [1, 2])


@pytest.mark.parametrize("url", ["gs://bucket/out", "/out"])
def test_nothing_is_asked_for_nothing(url: str) -> None:
    assert side_by_side(url, lambda item: item, []) == []


def test_after_a_failure_nothing_more_is_begun() -> None:
    begun = []

    def ask(item: int) -> None:
        begun.append(item)
        if item == 3:
            raise StorageError("gone")
        threading.Event().wait(0.01)

    with pytest.raises(StorageError, match="gone"):
        side_by_side("gs://bucket/out", ask, range(1000), at_once=2)
    assert len(begun) < 100


def test_as_many_as_said_are_under_way() -> None:
    together = threading.Barrier(3, timeout=30)
    assert side_by_side("gs://bucket/out", lambda _: together.wait() >= 0, range(6), at_once=3) == [True] * 6
