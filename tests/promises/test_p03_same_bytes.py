"""P3: the same input, options and codecs give the same bytes, however they are built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, photo, write

_FLAGS = ("--splits", "train=0.8,validation=0.2", "--num_shards", "3", "--max_rejected", "5")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos whose names sort differently by locale, case and code point; some are unusable."""
    root = make_photos(
        tmp_path_factory.mktemp("p03") / "photos", classes=("cat", "Zebra", "ähnlich", "İstanbul"), each=15
    )
    for number in range(3):
        write(root, f"cat/broken {number}.jpg", photo(number)[: 200 + number])
    write(root, "cat/.hidden", b"")
    return root


@pytest.fixture(scope="module")
def reference(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a plain build."""
    out = tmp_path_factory.mktemp("reference") / "out"
    builds.built(photos, out, *_FLAGS)
    digests = disk.digests(out)
    # Shards with index and table, mapped indexes, rejects, duplicates, side files.
    assert len(digests) == 3 * 3 + 3 * 1 + 2 * 2 + 1 + 1 + 5, sorted(digests)
    return digests


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        pytest.param(["--threads", "1"], [], id="one thread"),
        pytest.param(["--threads", "6"], [partial(hooks.processes, 2)], id="two processes with two threads each"),
        pytest.param([*builds.DIRECT, "--threads", "3"], [partial(hooks.reorder_listing, 6)], id="Beam, shuffled"),
        pytest.param([], [partial(hooks.batches_of, 1)], id="references one by one"),
        pytest.param(
            ["--threads", "7", "--keep_parts", "--max_rejected", "50%"],
            [partial(hooks.batches_of, 7), partial(hooks.reorder_listing, 5)],
            id="batches of seven, shuffled, with flags that are not in the fingerprint",
        ),
    ],
)
def test_a_build_in_this_process_has_the_same_bytes(
    flags: list[str], changed: list[Callable[[], None]], photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    builds.built(photos, tmp_path / "out", *_FLAGS, *flags, hooks=changed)
    shutil.rmtree(tmp_path / "out" / "_parts", ignore_errors=True)
    assert disk.digests(tmp_path / "out") == reference


def test_shares_of_classes_and_groups_are_those_of_the_other_driver(tmp_path: Path) -> None:
    for number in range(16):
        write(tmp_path / "photos", f"{'cat' if number % 3 else 'dog'}/p{number // 2}_{number}.jpg", photo(number))
    flags = ("--splits", "train=0.5,test=0.5", "--stratify", "--group_by", "/(?P<group>p[0-9]+)_", "--num_shards", "1")
    for driver in builds.DRIVERS:
        builds.built(tmp_path / "photos", tmp_path / driver, *flags, *builds.DRIVERS[driver])

    assert disk.manifest(tmp_path / "local")["splits"].keys() == {"train", "test"}
    assert disk.digests(tmp_path / "local") == disk.digests(tmp_path / "DirectRunner")


def test_a_build_whose_every_bundle_runs_three_times_has_the_same_bytes(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    counted = partial(hooks.count_bundles, tmp_path / "steps")
    flags = (*_FLAGS, *builds.DIRECT, "--direct_runner_bundle_repeat=2")
    builds.built(photos, tmp_path / "out", *flags, hooks=[counted])
    runs = hooks.runs_by_step(tmp_path / "steps")
    assert set(runs.values()) == {3}
    assert runs.keys() >= {"EncodeParts/Encode", "ComposeShards/Compose", "Commit/PublishManifest", "Sweep/DropClaim"}
    assert disk.digests(tmp_path / "out") == reference  # which has no leftovers either


def test_what_a_build_killed_between_two_runs_of_a_bundle_leaves_is_swept_by_the_next_one(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    flags = (*_FLAGS, *builds.DIRECT, "--direct_runner_bundle_repeat=2")
    killed = builds.build(photos, tmp_path / "out", *flags, hooks=[hooks.kill_between_two_manifests])
    left = {Path(name).name for name in disk.files(tmp_path / "out") if name.startswith("_parts/")}
    assert (killed.code, left >= {"CLAIM", "00000.json"}) == (-9, True)
    assert "manifest.json" in disk.files(tmp_path / "out")  # the first of its runs has published

    builds.built(photos, tmp_path / "out", *_FLAGS)
    assert disk.digests(tmp_path / "out") == reference


def test_a_fresh_interpreter_in_another_environment_has_the_same_bytes(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "shardfeed", *builds.build_args(photos, tmp_path / "out", *_FLAGS)]
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    other = {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", **locale}
    path = {"PYTHONPATH": str(builds.ROOT), "PATH": os.environ["PATH"]}
    ended = subprocess.run(command, cwd=tmp_path, env=path | other, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert disk.digests(tmp_path / "out") == reference


def test_the_same_files_at_another_path_have_the_same_bytes_and_only_run_json_names_the_path(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    copy, out = tmp_path / "another" / "place", tmp_path / "out"
    shutil.copytree(photos, copy)  # with modification times
    builds.built(copy, out, *_FLAGS)
    assert disk.digests(out) == reference
    naming = [name for name in disk.files(out) if os.fsencode(tmp_path) in (out / name).read_bytes()]
    assert naming == ["run.json"]


@pytest.mark.parametrize("given", ["{}/", "{}/../photos/**"], ids=["a slash at its end", "a glob"])
def test_the_input_in_another_spelling_has_the_same_bytes(
    given: str, photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    as_usual = builds.build_args(photos, tmp_path / "out", *_FLAGS)
    ended = builds.run(*(given.format(photos) if arg == str(photos) else arg for arg in as_usual))
    assert (ended.code, ended.err) == (0, "")
    assert disk.digests(tmp_path / "out") == reference


def test_copies_with_other_modification_times_differ_only_where_versions_and_fingerprint_stand(
    photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    copy = tmp_path / "photos"
    shutil.copytree(photos, copy, copy_function=shutil.copy)
    builds.built(copy, tmp_path / "out", *_FLAGS)
    found = disk.digests(tmp_path / "out")
    changed = {"manifest.json", "train.index", "train.classes", "validation.index", "validation.classes"}
    changed |= {name for name in found if name.endswith(".parquet")}
    assert {name for name in found if found[name] != reference.get(name)} == changed
