"""P2 and P4: one build killed at every step, under each driver, and finished by another.

Both promises stand in one file because the killed builds take as long as all other promises.
"""

from __future__ import annotations

import re

import pytest

from shardfeed.format import naming
from tests.kit import builds
from tests.promises.killed import IMAGES, STEPS_OF_GRAPH, KilledBuilds, kill_everywhere


@pytest.fixture(scope="module", params=builds.DRIVERS)
def killed_builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KilledBuilds:
    """A small build under one driver, killed at its steps, and finished (see ``kill_everywhere``)."""
    return kill_everywhere(tmp_path_factory.mktemp("killed"), request.param)


# ---- P2: without a manifest there is no dataset, with it there is a whole one


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
    assert len(after) > 2
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


# ---- P4: the same command completes


def test_the_process_was_killed_at_every_step(killed_builds: KilledBuilds) -> None:
    assert {str(killed.point): killed.code for killed in killed_builds.killed if killed.code != -9} == {}
    assert {killed.point.kind for killed in killed_builds.killed} >= set(STEPS_OF_GRAPH)


def test_each_driver_finished_what_the_other_left(killed_builds: KilledBuilds) -> None:
    other = next(driver for driver in builds.DRIVERS if driver != killed_builds.driver)
    finished = {killed.point.kind for killed in killed_builds.killed if killed.driver == other}
    assert finished >= set(STEPS_OF_GRAPH)


def test_the_kills_left_every_kind_of_debris(killed_builds: KilledBuilds) -> None:
    killed = killed_builds.killed
    left = [set(one.left) for one in killed]
    names = [(there, name) for there in left for name in there]

    def without(ending: str, other: str) -> bool:
        """Whether a file was left without the one that is made after it."""
        return any(name.endswith(ending) and name.removesuffix(ending) + other not in there for there, name in names)

    debris = {
        "a torn temporary file": any(one.point.torn for one in killed),
        "a temporary file beside the name it got": any(
            one.point.kind.startswith("unlink _parts/tmp") for one in killed
        ),
        "a part without its sidecar": any(_is_orphan(name, there) for there, name in names),
        "a shard without its index": without(".tfrecord", ".tfrecord.idx"),
        "an index without its table": without(".tfrecord.idx", ".parquet"),
        "one of two pieces of the mapped index": without(".offsets", ".classes"),
        "a manifest without run.json": any(naming.MANIFEST in there and naming.RUN not in there for there in left),
        "a manifest beside parts": any({naming.MANIFEST, naming.CLAIM} <= there for there in left),
    }
    assert [what for what, there in debris.items() if not there] == []


def _is_orphan(name: str, there: set[str]) -> bool:
    return name.startswith("_parts/") and name.count("-") == 2 and name.split("-")[0] + ".json" not in there


def test_the_same_command_completes(killed_builds: KilledBuilds) -> None:
    assert {str(k): (k.again.code, k.again.err) for k in killed_builds.killed if k.again.code or k.again.err} == {}


def test_the_result_has_the_bytes_of_an_undisturbed_build_and_nothing_else_is_left(killed_builds: KilledBuilds) -> None:
    assert {str(k): sorted(k.digests) for k in killed_builds.killed if k.digests != killed_builds.whole} == {}


def test_run_json_is_there_in_the_end(killed_builds: KilledBuilds) -> None:
    assert [str(killed) for killed in killed_builds.killed if not killed.runs] == []


def test_no_finished_part_is_done_again(killed_builds: KilledBuilds) -> None:
    decodable = IMAGES - 1
    expected = {str(k): 0 if naming.MANIFEST in k.left else decodable - k.finished for k in killed_builds.killed}
    assert {str(killed): killed.encoded for killed in killed_builds.killed} == expected
    assert set(expected.values()) > {0, decodable}
