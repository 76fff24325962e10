"""How many CPU cores and how much memory this process may use.

A container's limits are those of its control groups (versions 1 and 2). Groups nest: the smallest
limit on the way up counts. Without /proc, as on macOS, only the machine itself is asked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Bytes of decoded pixels that a reader holds besides its batches, for any number of cores and
# images.
DECODED_AHEAD = 1 << 29

_ROOT = Path("/")


def cores(root: Path = _ROOT) -> int:
    """Number of CPU cores this process may use.

    Its affinity or, if less, its container's quota, rounded up.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *_quotas(root)]))


def memory(root: Path = _ROOT) -> int | None:
    """Bytes of memory this process may use: the machine's or, if less, its container's limit.

    None: unknown.
    """
    limits = [
        int(words[0])
        for group in _groups(root, "memory")
        if (words := _numbers(group / "memory.max") or _numbers(group / "memory.limit_in_bytes"))
    ]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def _quotas(root: Path) -> Iterator[int]:
    """Number of cores of each control group that has a CPU quota."""
    for group in _groups(root, "cpu"):
        words = _numbers(group / "cpu.max")
        words = words or _numbers(group / "cpu.cfs_quota_us") + _numbers(group / "cpu.cfs_period_us")
        if len(words) == 2 and words[1]:
            yield math.ceil(words[0] / words[1])


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups that may limit this process: its own and all above it.

    Inside a container the path may be the host's. Then only the uppermost folder, which is the
    container's own, exists.
    """
    try:
        lines = os.fsdecode((root / "proc/self/cgroup").read_bytes()).splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if path and not controllers:
            mounts = ["", "unified"]  # version 2, alone or beside version 1
        else:
            mounts = [controller] if controller in controllers.split(",") else []
        own = PurePosixPath(path)
        for mount in mounts:
            for group in (own, *own.parents):
                yield root / "sys/fs/cgroup" / mount / str(group).lstrip("/")


def _numbers(file: Path) -> list[int]:
    """The numbers in ``file``; empty if there is no limit ("max", -1) or no such file."""
    try:
        words = os.fsdecode(file.read_bytes()).split()
    except OSError:
        return []
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []
