"""P12: exit code and summary tell the truth: they are compared with the disk, counted anew."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.images import make_photos, write


def make_input(tmp_path: Path) -> Path:
    """Two classes with rejects of two reasons, skipped files of two, and images that need a fix."""
    photos = make_photos(tmp_path / "photos", each=20)
    for number in range(3):
        write(photos, f"cat/empty-{number}.jpg", b"")
    write(photos, "dog/text.jpg", b"no image")
    for name in ("dog/notes.txt", "dog/boxes.xml", "cat/.hidden.jpg"):
        write(photos, name, b"")
    return photos


def counted(out: Path) -> dict[str, Any]:
    """The facts of a summary, counted from shards, rejects files and the sizes of files."""
    by_split: dict[str, Counter[str]] = {}
    for split, features in disk.records(out):
        by_split.setdefault(split, Counter())[features["label"].decode()] += 1
    splits = {}
    for split, labels in by_split.items():
        sizes = [path.stat().st_size for path in out.glob(f"{split}-*.tfrecord")]
        splits[split] = {
            "records": labels.total(),
            "bytes": sum(sizes),
            "shards": len(sizes),
            "min_bytes": min(sizes),
            "mean_bytes": sum(sizes) // len(sizes),
            "max_bytes": max(sizes),
            "class_counts": dict(labels),
        }
    rejected = Counter(line["reason"] for line in disk.rejects(out))
    written = sum(labels.total() for labels in by_split.values())
    return {"written": written, "rejected": dict(rejected), "splits": splits}


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_the_summary_as_json_is_what_is_on_the_disk(driver: str, tmp_path: Path) -> None:
    photos, out = make_input(tmp_path), tmp_path / "out"
    flags = ("--splits", "train=0.7,test=0.3", "--num_shards", "3", *builds.DRIVERS[driver])
    ended = builds.built(photos, out, "--json", *flags)
    (line,) = ended.out.splitlines()
    summary = json.loads(line)
    assert {name: summary[name] for name in ("written", "rejected", "splits")} == counted(out)
    assert {
        name: summary[name] for name in ("status", "output", "listed", "skipped", "classes", "encoded_in_this_run")
    } == {
        "status": "built",
        "output": str(out),
        "listed": 47,
        "skipped": {"hidden": 1, "suffix": 2},
        "classes": ["cat", "dog"],
        "encoded_in_this_run": 44,
    }
    assert summary["fingerprint"] == disk.manifest(out)["fingerprint"]
    assert summary["seconds"] > 0


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda out: next(out.glob("train-*.tfrecord")).unlink(),
            r"train-00000-of-0000\d\.tfrecord: file: expected \d+ bytes, found no file\.",
        ),
        (
            lambda out: cut(out / "classes.txt"),
            r"classes\.txt at byte \d+: size: expected \d+ bytes, found \d+ bytes\.",
        ),
        (
            lambda out: swap(out / "manifest.json", b'"quality":95', b'"quality":95 '),
            r"manifest\.json: crc32c in run\.json: expected [0-9a-f]{8}, found [0-9a-f]{8}\.",
        ),
    ],
    ids=["a shard is gone", "a file is cut", "the manifest is not what was written"],
)
def test_a_finished_build_that_is_damaged_since_is_not_called_complete(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    photos, out = make_input(tmp_path), tmp_path / "out"
    builds.built(photos, out)
    damage(out)
    left = disk.digests(out)
    ended = builds.build(photos, out)
    name = said.partition(":")[0].partition(" at")[0]
    assert (ended.code, ended.out) == (4, "")
    assert re.fullmatch(
        rf"shardfeed: the dataset at {out} is damaged: {said} Restore {name} from a copy, or delete {out} and "
        r"build again\.\n",
        ended.err,
    ), ended.err
    assert disk.digests(out) == left


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def swap(file: Path, one: bytes, other: bytes) -> None:
    data = file.read_bytes()
    assert one in data
    file.write_bytes(data.replace(one, other))


_CODES: dict[str, tuple[int, tuple[str, ...], tuple[Callable[[], None], ...], bool]] = {
    "a build": (0, (), (), True),
    "an unknown flag": (2, ("--no_such_flag",), (), False),
    "no images for the shards": (2, ("--num_shards", "1000"), (), False),
    "too many rejects": (3, ("--max_rejected", "3"), (), False),
    "a lost part": (4, (), (hooks.lose_part,), False),
    "Ctrl-C": (4, (), (partial(hooks.signal_at_image, 5, SIGINT),), False),
    "SIGTERM": (4, (), (partial(hooks.signal_at_image, 5, SIGTERM),), False),
    "a full disk": (4, (), (partial(hooks.fill_disk, 2_000),), False),
    "a bug": (1, (), (partial(hooks.fail_from_image, 5),), False),
}


@pytest.mark.parametrize(
    ("driver", "name"),
    [*(("local", name) for name in _CODES), *(("DirectRunner", name) for name in ("SIGTERM", "a full disk", "a bug"))],
)
def test_the_exit_code_says_how_it_ended(driver: str, name: str, tmp_path: Path) -> None:
    code, flags, changed, published = _CODES[name]
    photos, out = make_input(tmp_path), tmp_path / "out"
    ended = builds.build(photos, out, *flags, *builds.DRIVERS[driver], hooks=changed)
    assert (ended.code, (out / "manifest.json").exists()) == (code, published), ended.err
    assert bool(ended.out) == published
    assert bool(ended.err) == (code != 0)
    assert ("ZeroDivisionError: a bug" in ended.err) == (name == "a bug")
    if code in (2, 3, 4):
        assert "Traceback" not in ended.err
        assert len([line for line in ended.err.splitlines() if line.startswith("shardfeed: ")]) == 1


def test_success_is_only_told_when_the_manifest_can_be_read_back(tmp_path: Path) -> None:
    photos, out = make_input(tmp_path), tmp_path / "out"
    ended = builds.build(photos, out, *builds.DIRECT, hooks=[hooks.skip_build])
    assert (ended.code, ended.out) == (4, "")
    assert "manifest.json is not there although the engine reported success" in ended.err
