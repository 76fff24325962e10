"""What a listing shows: names, sizes, the manifest and run.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import UsageError
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import sealed_json
from shardfeed.storage.local import LocalStore
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.verification.dataset import verify
from shardfeed.verification.report import Finding, Report
from tests.kit import builder, builds, hooks
from tests.verify.damage import INDEX, REJECTS, SHARD, TABLE, append, cut


def restore(file: str, out: Path) -> str:
    return f"Restore {file} from a copy, or delete {out} and build again."


def test_an_undamaged_dataset_is_in_order_and_the_report_says_what_was_looked_at(out: Path) -> None:
    sizes = [file.stat().st_size for file in out.iterdir() if file.name != "manifest.json"]
    assert verify(out) == Report((), (), files=len(sizes), bytes=sum(sizes), records=0, deep=False)


def test_the_report_as_text_ends_with_the_verdict(out: Path) -> None:
    report = verify(out)
    assert str(report) == f"in order: 24 files, {report.bytes:,} bytes; names and sizes only (--deep reads the records)"
    assert str(verify(out, deep=True)) == f"in order: 24 files, {report.bytes:,} bytes; 18 records read"
    size = (out / SHARD).stat().st_size
    cut(out / SHARD, 100)
    (out / "mine.txt").write_bytes(b"")
    damaged = verify(out)
    assert str(damaged).splitlines() == [
        f"{SHARD} at byte 100: size: expected {size} bytes, found 100 bytes. {restore(SHARD, out)}",
        "note: 1 file not of shardfeed: mine.txt",
        f"1 problem found: 24 files, {damaged.bytes:,} bytes; names and sizes only (--deep reads the records)",
    ]


def test_the_report_as_json_has_every_field(out: Path) -> None:
    assert verify(out)
    (out / SHARD).unlink()
    assert not verify(out)
    size = verify(out).findings[0].expected
    assert json.loads(verify(out).to_json()) == {
        "ok": False,
        "deep": False,
        "files": 23,
        "bytes": verify(out).bytes,
        "records": 0,
        "notes": [],
        "findings": [
            {"file": SHARD, "offset": None, "what": "file", "expected": size, "found": "no file",
             "remedy": restore(SHARD, out)},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("file", [SHARD, INDEX, "classes.txt", REJECTS, "train.index", "train.classes", TABLE])
def test_a_missing_file_is_found(out: Path, file: str) -> None:
    expected = "5 rows" if file == TABLE else f"{(out / file).stat().st_size} bytes"
    (out / file).unlink()
    for deep in (False, True):
        (found,) = verify(str(out), deep=deep).findings
        assert found == Finding(file, None, "file", expected, "no file", restore(file, out))


@pytest.mark.parametrize("file", [SHARD, "classes.txt"])
def test_bytes_after_the_end_are_found(out: Path, file: str) -> None:
    size = (out / file).stat().st_size
    append(out / file, b"x")
    assert verify(out).findings == (
        Finding(file, size, "size", f"{size} bytes", f"{size + 1} bytes", restore(file, out)),
    )


@pytest.mark.parametrize(
    "file",
    [
        "train-00003-of-00004.tfrecord", "old-00000-of-00001.tfrecord.idx", "rejects-00001-of-00002.jsonl", "test.tfrecord",
        "old-00000-of-00001.parquet",
    ],
)  # fmt: skip
def test_a_file_that_readers_or_we_would_take_for_one_of_the_dataset_is_foreign(out: Path, file: str) -> None:
    (out / file).write_bytes(b"")
    (finding,) = verify(out).findings
    assert (finding.file, finding.what) == (file, "foreign file")
    listed = "*.parquet" if file.endswith(".parquet") else "*.tfrecord"
    assert finding.remedy == f"Readers that list {listed} would read it too: move {file} out of {out}."


def test_work_in_progress_is_noted_and_left_alone(out: Path) -> None:
    part = out / "_parts" / ("ab" * 16) / "train" / "00000.json"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"{}")
    report = verify(out, deep=True)
    assert report.ok
    assert report.notes == (
        "_parts/ holds 1 files of a build in progress or stopped after it published; "
        "they are no part of the dataset, and rerunning the same build sweeps them.",
    )
    assert part.read_bytes() == b"{}"


def test_a_manifest_that_is_not_the_one_that_was_written_is_found(out: Path) -> None:
    written = to_hex(crc32c((out / "manifest.json").read_bytes()))
    (out / "run.json").write_bytes(sealed_json({"manifest_crc32c": written}))
    assert verify(out).ok
    text = (out / "manifest.json").read_text()
    changed = text.replace('"config":{', '"config":{"channels":"cmyk",')
    assert changed != text
    (out / "manifest.json").write_text(changed)
    (finding,) = verify(out).findings
    assert finding == Finding(
        "manifest.json", None, "crc32c in run.json", written, to_hex(crc32c(changed.encode())),
        f"Restore manifest.json from a copy, or delete {out} and build again.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        "", "[1", "[]", "{}", "[" * 100_000, '{"manifest_crc32c":"97ff8490"}\n', sealed_json({"run_id": "1"}).decode(),
    ],
    ids=lambda content: content[:40],
)  # fmt: skip
def test_a_damaged_run_json_is_named_and_the_manifest_is_not(out: Path, content: str) -> None:
    (out / "run.json").write_text(content)
    assert verify(out).findings == (
        Finding(
            "run.json", None, "run record", "canonical JSON with its own crc32c and the manifest's", "another content",
            "Nothing else in the dataset depends on it: delete run.json and rerun the build's command, which writes it again.",
        ),
    )  # fmt: skip


def test_run_json_belongs_to_the_dataset_and_a_change_of_any_of_its_bytes_is_found(out: Path) -> None:
    record = RunRecord("run-1", "2026-11-22T22:47:00+00:00", ("/photos/é",), "DirectRunner")
    data = record.to_json((out / "manifest.json").read_bytes())
    (out / "run.json").write_bytes(data)
    assert verify(out).findings == ()

    found = []
    for at, byte in enumerate(data):
        (out / "run.json").write_bytes(data[:at] + bytes((byte ^ 1,)) + data[at + 1 :])
        found.append(sorted({finding.file for finding in verify(out).findings}))
    assert found == [["run.json"]] * len(data)


def test_several_problems_are_all_reported(out: Path) -> None:
    (out / SHARD).unlink()
    (out / "classes.txt").unlink()
    append(out / "test-00000-of-00003.tfrecord", b"x")
    (out / "train-00000-of-00001.tfrecord").write_bytes(b"")
    assert [(finding.file, finding.what) for finding in verify(out).findings] == [
        ("test-00000-of-00003.tfrecord", "size"),
        (SHARD, "file"),
        ("classes.txt", "file"),
        ("train-00000-of-00001.tfrecord", "foreign file"),
    ]


def test_read_only_rights_suffice(out: Path) -> None:
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in out.iterdir()}
    for file in out.iterdir():
        file.chmod(0o444)
    out.chmod(0o555)
    builds.start_builder()
    ended = builder.ask(builder.Request(("verify", str(out), "--deep"), (hooks.obey_permissions,)))
    out.chmod(0o755)
    assert (ended.code, ended.out.split(":")[0], ended.err) == (0, "in order", "")
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in out.iterdir()} == before


def test_fast_verification_reads_the_manifest_and_lists_once_however_many_files(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(name: str) -> None:
        real = getattr(LocalStore, name)

        def noted(store: LocalStore, *args: Any, **options: Any) -> Any:
            asked.append(" ".join([name, *map(str, args)]))
            return real(store, *args, **options)

        monkeypatch.setattr(LocalStore, name, noted)

    for name in ("read", "read_range", "stat", "list"):
        note(name)
    assert verify(out).ok
    assert asked == ["stat manifest.json", "read manifest.json", "list"]


def test_an_empty_string_is_no_folder() -> None:
    with pytest.raises(UsageError) as raised:
        verify("")
    assert str(raised.value) == (
        "the dataset is an empty string. Name its folder (. for the current one) or gs://bucket/folder."
    )


def test_a_number_of_threads_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^threads=0: expected an integer of at least 1\.$"):
        verify(tmp_path, threads=0)
