"""How many cores and how much memory this process may use, by made-up control groups."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from shardfeed import runtime

ALLOWED = 16  # cores of the affinity
GIB = 1 << 30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with ``ALLOWED`` cores for this process and 64 GiB of memory."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(ALLOWED)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 16 << 20, "SC_PAGE_SIZE": 4096}.__getitem__)


def tree(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A root folder with the process's control ``groups`` and ``files`` below /sys/fs/cgroup."""
    for path, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return root


QUOTA_OF_V1 = {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}
QUOTAS: dict[str, tuple[str, dict[str, str], int]] = {
    "two cores": ("0::/", {"cpu.max": "200000 100000"}, 2),
    "two and a half": ("0::/", {"cpu.max": "250000 100000"}, 3),
    "half a core": ("0::/", {"cpu.max": "50000 100000"}, 1),
    "no quota": ("0::/", {"cpu.max": "max 100000"}, ALLOWED),
    "more than the affinity": ("0::/", {"cpu.max": "6400000 100000"}, ALLOWED),
    "no files": ("0::/", {}, ALLOWED),
    "the parent's is less": ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "400000 100000"}, 2),
    "the parent's alone": ("0::/a/b", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, 4),
    "a colon in the name": ("0::/a:b", {"a:b/cpu.max": "200000 100000"}, 2),
    "the host's path inside a container": ("0::/of/the/host", {"cpu.max": "300000 100000"}, 3),
    "another group's": ("0::/a", {"b/cpu.max": "200000 100000"}, ALLOWED),
    "text": ("0::/", {"cpu.max": "who knows"}, ALLOWED),
    "a period of zero": ("0::/", {"cpu.max": "200000 0"}, ALLOWED),
    "an empty file": ("0::/", {"cpu.max": ""}, ALLOWED),
    "lines that are none": ("not a control group", {"cpu.max": "200000 100000"}, ALLOWED),
    "version 1": ("4:memory:/m\n3:cpu,cpuacct:/a\n1:name=systemd:/s", QUOTA_OF_V1, 2),
    "version 1 without a quota": ("3:cpu:/a", QUOTA_OF_V1 | {"cpu/a/cpu.cfs_quota_us": "-1"}, ALLOWED),
    "version 1 inside a container": (
        "3:cpu:/docker/7", {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3,
    ),
    "version 1, another controller": ("3:cpuset:/a", QUOTA_OF_V1, ALLOWED),
    "both versions": ("3:cpu:/a\n0::/u", QUOTA_OF_V1 | {"unified/u/cpu.max": "max 100000"}, 2),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "files", "cores"), QUOTAS.values(), ids=QUOTAS)
def test_cores_are_those_of_the_smallest_quota_on_the_path_up(
    tmp_path: Path, groups: str, files: dict[str, str], cores: int
) -> None:
    assert runtime.cores(tree(tmp_path, groups, files)) == cores


LIMITS: dict[str, tuple[str, dict[str, str], int]] = {
    "a limit": ("0::/", {"memory.max": f"{2 * GIB}"}, 2 * GIB),
    "no limit": ("0::/", {"memory.max": "max"}, 64 * GIB),
    "the parent's is less": ("0::/a/b", {"a/memory.max": f"{GIB}", "a/b/memory.max": f"{2 * GIB}"}, GIB),
    "version 1": ("4:memory:/m", {"memory/m/memory.limit_in_bytes": f"{3 * GIB}"}, 3 * GIB),
    "version 1 without a limit": ("4:memory:/m", {"memory/m/memory.limit_in_bytes": "9223372036854771712"}, 64 * GIB),
}


@pytest.mark.parametrize(("groups", "files", "memory"), LIMITS.values(), ids=LIMITS)
def test_memory_is_that_of_the_smallest_limit_on_the_path_up(
    tmp_path: Path, groups: str, files: dict[str, str], memory: int
) -> None:
    assert runtime.memory(tree(tmp_path, groups, files)) == memory


def test_without_proc_the_affinity_and_the_machines_memory_count(tmp_path: Path) -> None:
    assert (runtime.cores(tmp_path), runtime.memory(tmp_path)) == (ALLOWED, 64 * GIB)


def test_without_an_affinity_the_machines_cores_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert runtime.cores(tmp_path) == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert runtime.cores(tmp_path) == 1


def test_memory_that_is_not_known_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")

    assert runtime.memory(tmp_path) is None


def test_nothing_else_asks_for_cores_or_memory() -> None:
    root = Path(runtime.__file__).parents[1]
    sources = [path for package in ("shardfeed", "transforms", "pipeline") for path in (root / package).rglob("*.py")]

    asking = [path for path in sources if re.search("cpu_count|sched_getaffinity|SC_PHYS_PAGES", path.read_text())]
    assert asking == [Path(runtime.__file__)]


def test_a_control_group_with_a_name_that_is_not_utf8_counts(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup" / os.fsdecode(b"\xff")
    group.mkdir(parents=True)
    (group / "memory.max").write_text("4096")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_bytes(b"0::/\xff\n")

    assert runtime.memory(tmp_path) == 4096
