"""P2: a dataset exists if and only if its manifest does. Readers never see a part of one."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from signal import SIGKILL

import pytest

import shardfeed
from shardfeed.errors import DatasetError
from shardfeed.format import naming
from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos
from tests.promises.killed import KilledBuilds


def test_a_build_killed_at_any_step_before_the_manifest_is_no_dataset_to_a_reader(killed_builds: KilledBuilds) -> None:
    said = {
        str(killed.point): killed.found
        for killed in killed_builds.killed
        if naming.MANIFEST not in killed.left and killed.left
    }
    assert len(said) > len(killed_builds.points) // 2
    assert {point: text for point, text in said.items() if "build incomplete: rerun the same" not in text} == {}


def test_a_build_killed_at_any_step_after_the_manifest_is_a_whole_dataset(killed_builds: KilledBuilds) -> None:
    after = [killed for killed in killed_builds.killed if naming.MANIFEST in killed.left]
    assert len(after) > 4
    whole = set(killed_builds.whole)
    assert {str(killed.point): killed.found for killed in after if killed.found or not whole <= set(killed.left)} == {}


def test_the_manifest_is_published_after_everything_it_names(killed_builds: KilledBuilds) -> None:
    published = [step.split()[1] for step in killed_builds.steps if step.startswith("link ") and "_parts/" not in step]
    manifest = published.index(naming.MANIFEST)
    assert sorted(published[:manifest]) == sorted(set(killed_builds.whole) - {naming.MANIFEST})
    assert published[manifest + 1 :] == [naming.RUN]


def test_after_the_manifest_nothing_is_written_but_run_json_and_then_only_work_in_progress_goes(
    killed_builds: KilledBuilds,
) -> None:
    steps = list(killed_builds.steps)
    after = steps[steps.index(f"link {naming.MANIFEST}") + 1 :]
    others = [step for step in after if not re.match(r"(unlink|rmdir) _parts(/|$)", step)]
    assert [re.sub(r"tmp-\S+", "tmp-…", step) for step in others] == ["write _parts/tmp/tmp-…", f"link {naming.RUN}"]


def test_the_claim_is_the_first_file_of_a_build_and_the_last_to_go(killed_builds: KilledBuilds) -> None:
    files = [step for step in killed_builds.steps if re.match(r"(link|unlink) ", step) and "/tmp-" not in step]
    assert files[0] == f"link {naming.CLAIM}"
    assert files[-1] == f"unlink {naming.CLAIM}"


def test_every_file_appears_whole_under_its_name_never_growing(killed_builds: KilledBuilds) -> None:
    assert [
        s for s in killed_builds.steps if s.startswith("write ") and not re.search(r"/tmp/tmp-[0-9a-f-]+$", s)
    ] == []


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_a_build_that_fails_leaves_no_dataset(driver: str, tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    ended = builds.build(photos, tmp_path / "out", *builds.DRIVERS[driver], hooks=[hooks.lose_part])
    assert ended.code == 4
    assert [name for name in disk.files(tmp_path / "out") if not name.startswith("_parts/")] == []
    with pytest.raises(DatasetError, match="build incomplete: rerun the same"):
        shardfeed.info(tmp_path / "out")


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
