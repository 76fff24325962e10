"""The process that runs builds for tests: one that hangs is never taken for one that was killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.kit import builds
from tests.kit.builder import Request, ask


def hang() -> None:
    threading.Event().wait()


def test_a_command_that_hangs_fails_its_test_and_says_where(tmp_path: Path) -> None:
    builds.start_builder()
    where = rf"status.* did not end within 0\.5 s:\n(.*\n)* .*{Path(__file__).name}.* in hang\n"
    with pytest.raises(AssertionError, match=where):
        ask(Request(("status", str(tmp_path)), (hang,), patience=0.5))
