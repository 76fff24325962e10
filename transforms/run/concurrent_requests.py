"""Many small requests to a bucket at a time.

Each waits tens of milliseconds for its answer. One after another, deleting what a build of a
thousand parts leaves takes a minute. A local disk answers at once, so there the requests go one
after another, in order, unless the caller asks for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shardfeed import storage

REQUESTS = 16  # at a time; far below the 64 connections that a process keeps

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    url: str, function: Callable[[T], R], items: Iterable[T], at_once: int = REQUESTS, on_disk: int = 1
) -> list[R]:
    """``function`` of every item, in the order of ``items``, for requests to the store at ``url``.

    ``at_once``: calls at a time if the store is a bucket; ``on_disk``: if it is a folder.
    A failure ends the call once the items before it are done; few further items are begun.
    """
    threads = at_once if storage.is_remote(url) else on_disk
    if threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="requests") as pool:
        return list(pool.map(function, items))
