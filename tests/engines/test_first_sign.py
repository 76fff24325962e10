"""A job whose workers never begin is waited for, but not without a word."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from shardfeed.format import naming
from shardfeed.pipeline.engines import first_sign
from tests.engines.front_door import front_door
from tests.engines.launcher import launched, read_until, terminal
from tests.kit import builds
from tests.kit.hooks import put


def be_impatient() -> None:
    """Half a second without a worker is long."""
    put(first_sign, "SECONDS", 0.5)


def test_that_no_worker_has_begun_is_told_once_while_the_job_is_waited_for(photos: Path, tmp_path: Path) -> None:
    pool = ("--environment_type", "EXTERNAL", "--environment_config", "localhost:5")
    with terminal() as (ours, use_terminal), front_door() as door:
        args = builds.build_args(photos, tmp_path / "out", *door.flags, *pool)
        with launched(args, tmp_path, hooks=(use_terminal, be_impatient)) as launcher:
            shown = read_until(ours, "Still waiting.")
            launcher.send_signal(signal.SIGTERM)
            shown += read_until(ours, "no longer waiting; the job goes on")
            assert launcher.ended().code == 4
    assert shown.startswith(
        "shardfeed: no worker has claimed the output in 0.5 s (a large input is listed before that). See that the workers at "
        "localhost:5 run, and that their `python` has shardfeed and apache-beam. Still waiting."
    )
    assert shown.count("no worker") == 1


@pytest.mark.parametrize("begun", [False, True])
def test_a_worker_is_heard_of_by_its_claim(begun: bool, tmp_path: Path) -> None:
    if begun:
        (tmp_path / naming.CLAIM).parent.mkdir()
        (tmp_path / naming.CLAIM).write_text("{}")
    assert first_sign.has_begun(str(tmp_path)) is begun


def test_an_output_that_cannot_be_looked_at_is_no_reason_to_warn(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "out")
    assert first_sign.has_begun(str(tmp_path / "out"))
