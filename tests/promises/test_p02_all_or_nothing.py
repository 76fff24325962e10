"""P2: a dataset exists if and only if its manifest does. Readers never see a part of one.

``test_killed_at_every_step.py`` proves it for a build that is killed at any step, and
``test_p01_nothing_lost.py`` for one that fails.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from signal import SIGKILL

import pytest

import shardfeed
from shardfeed.errors import DatasetError
from shardfeed.format import naming
from tests.kit import builds, hooks
from tests.kit.images import make_photos


def test_an_empty_or_absent_folder_is_no_dataset_and_no_incomplete_build(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DatasetError, match=r"manifest\.json is not there"):
            shardfeed.info(folder)


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_a_shard_that_the_build_did_not_make_stops_it_before_the_manifest(driver: str, tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos"), tmp_path / "out"
    assert builds.build(photos, out, hooks=[partial(hooks.signal_at_image, 5, SIGKILL)]).code == -9
    (out / "train-00007-of-00008.tfrecord").write_bytes(b"of another build")
    ended = builds.build(photos, out, *builds.DRIVERS[driver])
    assert (ended.code, (out / naming.MANIFEST).exists()) == (5, False)
    assert "train-00007-of-00008.tfrecord" in ended.err
