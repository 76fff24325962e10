"""Exact sums over the pixels of a sample of images, for the dataset's mean and deviation."""

from __future__ import annotations

Stats = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Number of pixels; sums per channel of the values 0-255; sums per channel of their squares."""


def add_stats(one: Stats | None, two: Stats | None) -> Stats | None:
    """The sums over both samples; None is an empty one."""
    if one is None or two is None:
        return one or two
    return (
        one[0] + two[0],
        tuple(a + b for a, b in zip(one[1], two[1], strict=True)),
        tuple(a + b for a, b in zip(one[2], two[2], strict=True)),
    )
