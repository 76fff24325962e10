"""Many small requests to a bucket at a time.

Each costs tens of milliseconds of waiting, whatever the machine: one after another, deleting what a build of a thousand
parts leaves takes a minute. On a local disk nothing waits, so there it is one after another, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shardfeed import storage

REQUESTS = 16  # at a time; far below the 64 connections that a process keeps

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(url: str, function: Callable[[T], R], items: Iterable[T], at_once: int = REQUESTS) -> list[R]:
    """``function`` of every item, in the order of ``items``; it asks something of the store at ``url``."""
    if not storage.is_remote(url):
        return [function(item) for item in items]
    with ThreadPoolExecutor(at_once, thread_name_prefix="requests") as pool:
        return list(pool.map(function, items))
