"""``shardfeed status``: every state that an output can be in, from its files alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.cli.main import main
from shardfeed.errors import IncompleteError
from shardfeed.format import naming
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.report.summary import Summary
from shardfeed.pipeline.run_build import run_build
from shardfeed.pipeline.status.command import SIDECARS_READ, build_status
from shardfeed.transforms import stores
from shardfeed.transforms.output.claim import discard_incomplete
from shardfeed.transforms.run.state import Outcome
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit import disk
from tests.kit.commands import environment, write_photos
from tests.status.outputs import FINGERPRINT, NOW, OPTIONS, set_time, under_way

BUILD = (
    f"  build      {FINGERPRINT}: background #000000, channels rgb, image_format jpeg, image_size [16, 16], label_from folders, "
    "num_shards 2, quality 95, resize crop, resizer simd, seed 0, splits train"
)


def _next(out: Path) -> str:
    return (
        f"if the build still runs, wait, then shardfeed status {out}; if it has ended, rerun the same `shardfeed build`: it "
        "carries on from the finished parts"
    )


def test_a_build_under_way_says_how_far_how_fast_and_how_long(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5)

    status = build_status(str(out), now=NOW + 4)
    assert status.to_text().splitlines() == [
        f"{out}: a build, encoding, last file written 4 s ago",
        "  images     50 of 200 (25 %)",
        "  parts      5 finished, 5.0 kB",
        "  rate       5 img/s over the latest parts, about 30 s of encoding left",
        BUILD,
        f"Next: {_next(out)}",
    ]
    assert status.code == IncompleteError.code


def test_a_build_that_writes_nothing_for_long_has_probably_ended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5, rejected=1)

    assert build_status(str(out), now=NOW + 7200).to_text().splitlines() == [
        f"{out}: a build, encoding, last file written 2 h 0 min ago: it has probably ended",
        "  images     50 of 200 (25 %), 5 rejected (FORMAT 5)",
        "  parts      5 finished, 4.5 kB",
        "  rate       5 img/s over the latest parts",
        BUILD,
        f"Next: {_next(out)}",
    ]


def test_slow_parts_are_given_their_time(tmp_path: Path) -> None:
    under_way(tmp_path / "out", images=200, parts=20, finished=5, every=100)

    assert build_status(str(tmp_path / "out"), now=NOW + 450).silent is False
    assert build_status(str(tmp_path / "out"), now=NOW + 550).silent is True


def test_the_rate_is_that_of_the_latest_run(tmp_path: Path) -> None:
    """Parts of yesterday's run must not make today's look slow."""
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=10)
    for number in range(5):
        set_time(out / naming.sidecar_name(FINGERPRINT, "train", number), NOW - 86_400)

    assert build_status(str(out), now=NOW).rate == pytest.approx(5.0)


def test_a_claim_without_parts_has_no_rate(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=0)

    assert build_status(str(out), now=NOW + 1).to_text().splitlines() == [
        f"{out}: a build, encoding, last file written 1 s ago",
        "  images     0 of 200 (0 %)",
        "  parts      0 finished, 0 B",
        BUILD,
        f"Next: {_next(out)}",
    ]


def test_of_many_parts_a_sample_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    under_way(
        out, images=20 * SIDECARS_READ, parts=2 * SIDECARS_READ, finished=SIDECARS_READ + 2, every=0.1, rejected=1
    )
    reads: list[str] = []
    read = WritableLocalStore.read

    def counted(self: WritableLocalStore, name: str) -> bytes:
        reads.append(name)
        return read(self, name)

    monkeypatch.setattr(WritableLocalStore, "read", counted)
    status = build_status(str(out), now=NOW)

    assert len(reads) == SIDECARS_READ // 2 + 1 + 1  # every second sidecar, and the claim
    assert (status.parts, status.exact) == (SIDECARS_READ + 2, False)
    assert status.done == pytest.approx(10 * (SIDECARS_READ + 2), rel=0.01)
    assert status.bytes == 900 * (SIDECARS_READ + 2)
    assert status.to_text().splitlines()[1] == (
        f"  images     about {status.done:,} of 5,120 (50 %), about {SIDECARS_READ + 2} rejected (FORMAT {SIDECARS_READ + 2})"
    )


def test_shards_that_are_there_are_counted_against_all(tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = under_way(out, images=50, parts=5, finished=5)
    store.create("train-00000-of-00002.tfrecord", b"x")
    store.create("train-00000-of-00002.tfrecord.idx", b"0 1\n")
    set_time(out / "train-00000-of-00002.tfrecord", NOW + 5)
    set_time(out / "train-00000-of-00002.tfrecord.idx", NOW + 5)

    assert build_status(str(out), now=NOW + 10).to_text().splitlines() == [
        f"{out}: a build, publishing, last file written 5 s ago",
        "  images     50 of 50 (100 %)",
        "  parts      5 finished, 5.0 kB",
        "  shards     1 of 2 published",
        BUILD,
        f"Next: {_next(out)}",
    ]


def test_the_latest_failure_is_shown(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5)
    for at, text in ((10, "first"), (20, "the bucket kept failing")):
        stores.open_output(str(out)).create(naming.outcome_name(f"run-{at}"), Outcome(4, text).to_bytes())
        set_time(out / naming.outcome_name(f"run-{at}"), NOW + at)
    (out / naming.outcome_name("run-30")).write_bytes(b'{"code": 4, "mess')  # torn

    lines = build_status(str(out), now=NOW + 7200).to_text().splitlines()
    assert lines[-2:] == ["  last run   exit 4: the bucket kept failing", f"Next: {_next(out)}"]


def test_a_complete_dataset_says_so_and_what_is_left_of_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=8), tmp_path / "out"
    config = BuildConfig(inputs=(str(photos),), output=str(out), options=OPTIONS, keep_parts=True)
    summary = run_build(config)
    assert isinstance(summary, Summary)
    capsys.readouterr()

    assert main(["status", str(out)]) == 0
    left = sum(1 for path in (out / "_parts").rglob("*") if path.is_file())
    size = summary.manifest.splits["train"].bytes
    assert capsys.readouterr().out.splitlines() == [
        f"{out}: a complete dataset",
        f"  dataset    8 records in 2 shards, {size / 1000:.1f} kB",
        f"  leftovers  {left} files under _parts/; the same build command sweeps them",
        f"Next: shardfeed verify {out}",
    ]


def test_a_build_that_is_being_discarded_says_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    store = under_way(out, images=200, parts=20, finished=5)
    delete = type(store).delete

    def stops(self: WritableStore, name: str) -> None:
        if name.endswith("00002.json"):
            raise KeyboardInterrupt
        delete(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "delete", stops)
        with pytest.raises(KeyboardInterrupt):
            discard_incomplete(store)

    status = build_status(str(out))
    assert (status.state, status.code) == ("discarding", 5)
    lines = status.to_text().splitlines()
    assert lines[0].startswith(f"{out}: an unfinished build is being discarded, {status.work_files} files to go, ")
    assert lines[1].endswith("rerun the build with --discard_incomplete")


def test_json_has_the_same_facts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5, rejected=1)

    assert json.loads(build_status(str(out), now=NOW + 4).to_json()) == {
        "state": "encoding",
        "url": str(out),
        "fingerprint": FINGERPRINT,
        "config": OPTIONS.config(),
        "images": {"done": 50, "total": 200, "exact": True},
        "rejected": {"FORMAT": 5},
        "bytes": 4500,
        "parts": 5,
        "shards": {"published": 0, "all": None},
        "rate": 5.0,
        "seconds_since_last_write": 4.0,
        "silent": False,
        "seconds_left": 30.0,
        "files_in_parts": 6,
        "rejects": [],
        "duplicates": None,
        "last_failure": None,
        "foreign_files": [],
        "next": _next(out),
    }


def test_a_look_changes_nothing_not_even_a_torn_sidecar(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5)
    (out / naming.sidecar_name(FINGERPRINT, "train", 4)).write_bytes(b"{")
    before = disk.snapshot(tmp_path)

    status = build_status(str(out))
    assert disk.snapshot(tmp_path) == before
    assert (status.parts, status.exact) == (5, False)
    assert status.bytes == 5_000  # four of them, scaled up


def test_neither_beam_nor_pillow_is_needed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    under_way(out, images=200, parts=20, finished=5)
    program = (
        "import sys\n"
        "for name in ('apache_beam', 'PIL', 'cykooz', 'tensorflow', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "from shardfeed.cli.main import main\n"
        "sys.exit(main(['status', sys.argv[1]]))\n"
    )
    argv = [sys.executable, "-c", program, str(out)]
    ended = subprocess.run(argv, capture_output=True, text=True, env=environment(), timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (IncompleteError.code, "")
    assert ended.stdout.splitlines()[1] == "  images     50 of 200 (25 %)"
