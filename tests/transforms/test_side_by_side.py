"""Requests to a bucket overlap, in whatever order they are answered; on a disk they do not."""

from __future__ import annotations

import threading

import pytest

from shardfeed.storage import StorageError
from shardfeed.transforms.run.concurrent_requests import REQUESTS, side_by_side


@pytest.mark.parametrize(
    ("most", "count"), [({}, REQUESTS), ({"at_once": 3}, 3)], ids=["by default", "as many as said"]
)
def test_requests_to_a_bucket_are_under_way_together_and_answers_keep_their_order(
    most: dict[str, int], count: int
) -> None:
    together = threading.Barrier(count, timeout=30)  # opens only when as many are waiting

    def ask(item: int) -> int:
        together.wait()
        return item * 10

    items = range(2 * count)
    assert side_by_side("gs://bucket/out", ask, items, **most) == [item * 10 for item in items]
    assert side_by_side("gs://bucket/out", ask, [], **most) == []


def test_on_a_disk_the_calling_thread_does_one_after_the_other() -> None:
    here = threading.current_thread()
    assert side_by_side("/out", lambda item: (item, threading.current_thread() is here), "ab") == [
        ("a", True),
        ("b", True),
    ]
    assert side_by_side("/out", lambda item: item, []) == []


@pytest.mark.parametrize("url", ["gs://bucket/out", "/out"])
def test_a_failure_is_raised(url: str) -> None:
    def fail(_item: int) -> None:
        raise StorageError("gone")

    with pytest.raises(StorageError, match="gone"):
        side_by_side(url, fail, [1, 2])


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
