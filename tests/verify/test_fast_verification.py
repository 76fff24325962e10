"""What a listing shows: names, sizes, the manifest and run.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed import storage
from shardfeed.errors import DatasetError, UsageError
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import sealed_json
from shardfeed.storage.base import Stat
from shardfeed.storage.local import LocalStore
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.verification.dataset import verify
from shardfeed.verification.report import Finding
from tests.kit import builder, builds, hooks
from tests.verify.damage import INDEX, REJECTS, SHARD, append, change_manifest, cut, records


def restore(file: str, out: Path) -> str:
    return f"Restore {file} from a copy, or delete {out} and build again."


def test_an_undamaged_dataset_is_in_order_and_the_report_says_what_was_looked_at(out: Path) -> None:
    report = verify(out)
    named = [file for file in out.iterdir() if file.name != "manifest.json"]
    assert report.ok
    assert (report.findings, report.notes) == ((), ())
    assert (report.files, report.bytes) == (len(named), sum(file.stat().st_size for file in named))
    assert report.records == 0


def test_the_report_as_text_ends_with_the_verdict(out: Path) -> None:
    report = verify(out)
    assert str(report) == f"in order: 24 files, {report.bytes:,} bytes; names and sizes only (--deep reads the records)"
    assert str(verify(out, deep=True)) == f"in order: 24 files, {report.bytes:,} bytes; 18 records read"
    cut(out / SHARD, 100)
    (out / "mine.txt").write_bytes(b"")
    damaged = verify(out)
    assert str(damaged).splitlines() == [
        str(damaged.findings[0]),
        "note: 1 files are not shardfeed's: mine.txt",
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


@pytest.mark.parametrize("file", [SHARD, INDEX, "classes.txt", REJECTS])
def test_a_missing_file_is_found(out: Path, file: str) -> None:
    size = (out / file).stat().st_size
    (out / file).unlink()
    assert verify(str(out)).findings == (Finding(file, None, "file", f"{size} bytes", "no file", restore(file, out)),)


def test_a_finding_is_one_line_with_file_byte_expected_found_and_remedy(out: Path) -> None:
    size = (out / SHARD).stat().st_size
    cut(out / SHARD, 100)
    (finding,) = verify(out).findings
    assert str(finding) == (
        f"{SHARD} at byte 100: size: expected {size} bytes, found 100 bytes. "
        f"Restore {SHARD} from a copy, or delete {out} and build again."
    )


@pytest.mark.parametrize("record", [0, 3])
def test_a_shard_cut_between_two_records_is_found_although_it_is_a_valid_tfrecord_file(out: Path, record: int) -> None:
    size, (offset, _) = (out / SHARD).stat().st_size, records(out / SHARD)[record]
    cut(out / SHARD, offset)
    assert verify(out).findings == (
        Finding(SHARD, offset, "size", f"{size} bytes", f"{offset} bytes", restore(SHARD, out)),
    )


@pytest.mark.parametrize("file", [SHARD, INDEX, "classes.txt"])
def test_bytes_after_the_end_are_found(out: Path, file: str) -> None:
    size = (out / file).stat().st_size
    append(out / file, b"x")
    assert verify(out).findings == (
        Finding(file, size, "size", f"{size} bytes", f"{size + 1} bytes", restore(file, out)),
    )


def test_two_swapped_shards_of_different_sizes_are_found(out: Path) -> None:
    one, other = out / "train-00000-of-00003.tfrecord", out / "test-00000-of-00003.tfrecord"
    sizes = {file.name: file.stat().st_size for file in (one, other)}
    shutil.move(one, out / "aside")
    shutil.move(other, one)
    shutil.move(out / "aside", other)
    found = [(finding.file, finding.expected, finding.found) for finding in verify(out).findings]
    assert found == [
        (other.name, f"{sizes[other.name]} bytes", f"{sizes[one.name]} bytes"),
        (one.name, f"{sizes[one.name]} bytes", f"{sizes[other.name]} bytes"),
    ]


@pytest.mark.parametrize(
    "file",
    [
        "train-00003-of-00004.tfrecord",
        "old-00000-of-00001.tfrecord.idx",
        "rejects-00001-of-00002.jsonl",
        "test.tfrecord",
    ],
)
def test_a_file_that_readers_or_we_would_take_for_one_of_the_dataset_is_foreign(out: Path, file: str) -> None:
    (out / file).write_bytes(b"")
    (finding,) = verify(out).findings
    assert (finding.file, finding.what) == (file, "foreign file")
    assert finding.remedy == f"Readers that list *.tfrecord would read it too: move {file} out of {out}."


def test_files_of_others_are_noted_and_are_no_problem(out: Path) -> None:
    (out / "README.md").write_bytes(b"mine")
    report = verify(out)
    assert report.ok
    assert report.notes == ("1 files are not shardfeed's: README.md",)


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
        "One of the two is damaged. If --deep finds nothing else, delete run.json and rerun the build's command, which writes it "
        f"again. Else: Restore manifest.json from a copy, or delete {out} and build again.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1",
        "[]",
        "7",
        "{}",
        "[" * 100_000,
        '{"manifest_crc32c":"97ff8490"}\n',
        sealed_json({"run_id": "1"}).decode(),
    ],
)
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


def test_a_manifest_that_names_no_index_is_found(out: Path) -> None:
    change_manifest(out, files=tuple(file for file in shardfeed.info(out).manifest.files if file.file != INDEX))
    assert [(finding.file, finding.what, finding.expected) for finding in verify(out).findings] == [
        ("manifest.json", "files", f"an entry for {INDEX}"),
        (INDEX, "foreign file", "only files that the manifest names"),
    ]


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


def test_without_a_manifest_there_is_no_dataset(out: Path) -> None:
    (out / "manifest.json").unlink()
    for folder in (out, out / "nothing"):
        with pytest.raises(DatasetError, match=r"no dataset at .*: manifest\.json is not there\. Correct the path"):
            verify(folder)


def test_without_a_manifest_but_with_parts_the_build_is_incomplete_and_the_remedy_is_to_rerun_it(out: Path) -> None:
    (out / "manifest.json").unlink()
    (out / "_parts").mkdir()
    (out / "_parts" / "CLAIM").write_bytes(b"{}")
    with pytest.raises(DatasetError, match=r"build incomplete: rerun the same `shardfeed build` command"):
        verify(out)


def test_a_manifest_of_an_unknown_version_is_refused(out: Path) -> None:
    text = (out / "manifest.json").read_bytes().replace(b'"schema_version":2', b'"schema_version":3')
    (out / "manifest.json").write_bytes(text)
    with pytest.raises(DatasetError, match="schema_version 3; this shardfeed reads versions 1 and 2"):
        verify(out)


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


class _Ledger(LocalStore):
    """A store that notes what is asked of it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[str] = []

    def read(self, name: str) -> bytes:
        self.asked.append(f"read {name}")
        return super().read(name)

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        self.asked.append(f"read_range {name}")
        return super().read_range(name, offset, size)

    def stat(self, name: str) -> Stat | None:
        self.asked.append(f"stat {name}")
        return super().stat(name)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        self.asked.append(f"list {prefix}")
        return super().list(prefix)


def test_fast_verification_reads_the_manifest_and_lists_once_however_many_files(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _Ledger(str(out))
    monkeypatch.setattr(storage, "open_store", lambda url: store)
    assert verify(out).ok
    assert store.asked == ["stat manifest.json", "read manifest.json", "list "]


def test_an_empty_string_is_no_folder() -> None:
    with pytest.raises(UsageError) as raised:
        verify("")
    assert str(raised.value) == (
        "the dataset is an empty string. Name its folder (. for the current one) or gs://bucket/folder."
    )


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        (0, "threads=0: expected an integer of at least 1."),
        (1025, "threads=1025: expected an integer of at most 1024."),
        ("two", "threads='two': expected an integer, found str."),
    ],
)
def test_a_number_of_threads_that_cannot_be_is_refused(tmp_path: Path, threads: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        verify(tmp_path, threads=threads)

    assert str(caught.value) == message
