"""Exit codes where nobody can read standard error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.commands import command, environment, write_photos
from tests.kit.images import write


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def reader_that_has_left() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("stderr", "files", "flags", "code"),
    [
        (full_disk, ["cat/1.jpg", "cat/2.jpg"], ["--max_rejected", "1"], 3),
        (reader_that_has_left, [], ["--no_such_flag"], 2),
    ],
    ids=["full disk, too many rejects", "no reader, an unknown flag"],
)
def test_the_exit_code_is_the_same(
    stderr: Callable[[], int], files: list[str], flags: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for name in files:
        write(tmp_path / "in", name, b"no image")
    file = stderr()
    ended = subprocess.run(
        command("build", "--input", tmp_path / "in", "--output", tmp_path / "out", *flags),
        stdout=subprocess.PIPE,
        stderr=file,
        env=environment(),
    )
    os.close(file)
    assert (ended.returncode, ended.stdout) == (code, b"")


def test_a_build_with_standard_error_closed_completes(tmp_path: Path) -> None:
    write_photos(tmp_path / "in", cat=3, dog=3)
    build = command("build", "--input", tmp_path / "in", "--output", tmp_path / "out")
    ended = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *build], capture_output=True, env=environment())
    assert ended.returncode == 0
    assert (tmp_path / "out" / "manifest.json").exists()
