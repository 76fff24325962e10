"""What a process does to itself that runs codecs, and may die of one."""

from __future__ import annotations

import contextlib
import resource

from shardfeed.transforms.images.limits import Limits

OTHER_BYTES = 2 << 30  # other images within a process's budgets, and parts; a process of one image gets none of it
_FIRST_TO_GO = "500"  # of 1000, added to its share of the memory: the system ends it before its builder


def image_bytes(limits: Limits) -> int:
    """Bytes that an image takes at most: 20 per pixel (WebP), and its file a few times.

    2 GiB with the limits of 64 Mpx and 64 MiB.
    """
    return 20 * limits.max_pixels + 4 * limits.max_file_bytes + (512 << 20)


def be_expendable(more: int, cpu_seconds: int | None = None) -> None:
    """Limits this process to ``more`` bytes above what it has, and to ``cpu_seconds`` from now on.

    No core file is written.
    """
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    _limit(resource.RLIMIT_DATA, data + more)
    _limit(resource.RLIMIT_CORE, 0)
    if cpu_seconds is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + cpu_seconds)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_GO)


def _limit(what: int, most: int) -> None:
    """Lowers a limit; one that is lower stays."""
    soft, hard = resource.getrlimit(what)
    set_already = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(what, (min(most, *set_already) if set_already else most, hard))
