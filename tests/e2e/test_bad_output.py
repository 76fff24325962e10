"""What is wrong with an output, once each."""

from __future__ import annotations

import os
import re

import pytest

from tests.e2e.refusals import Case, snapshot
from tests.kit.commands import environment, photo, write_photos
from tests.kit.servers.strict_gcs import StrictGCS


def test_the_output_is_the_input(case: Case) -> None:
    case.fails(
        2,
        f"--output {case.root} is --input {case.root}: the next build would list its own files, and the input is never written "
        "to. Give an --output outside of it.",
        output=case.root,
    )


def test_the_output_lies_inside_the_input(case: Case) -> None:
    case.fails(
        2,
        f"--output {case.root}/out lies inside --input {case.root}: the next build would list its own files, and the input is "
        "never written to. Give an --output outside of it.",
        output=case.root / "out",
    )


def test_the_input_lies_inside_the_output(case: Case) -> None:
    case.fails(
        2,
        f"--output {case.root.parent} contains --input {case.root}: the next build would list its own files, and the input is "
        "never written to. Give an --output outside of it.",
        output=case.root.parent,
    )


def test_glob_characters_in_the_output(case: Case) -> None:
    case.fails(
        2,
        "--output out[1] has characters that file globs use (* ? [ ]); engines and readers would misread it. Give a plain path.",
        output="out[1]",
    )


def test_an_output_whose_name_is_not_utf8(case: Case) -> None:
    output = os.fsdecode(os.fsencode(case.output) + b"\xe9")

    case.fails(2, f"--output {case.output}\\xe9 is not UTF-8. Rename the folder.", output=output)
    assert not os.path.exists(output)


def test_the_output_is_a_file(case: Case) -> None:
    case.output = case.root.parent / "file"
    case.output.write_bytes(b"mine")

    case.fails(
        2,
        f"cannot use {case.output} (Not a directory). Something that is not a folder stands in the way: remove it "
        "or choose another --output.",
    )
    assert case.output.read_bytes() == b"mine"


def test_an_output_that_may_not_be_written(case: Case) -> None:
    case.output.mkdir(mode=0o555)

    case.fails(
        2,
        f"cannot write to the output: {case.output}/_parts/CLAIM (Permission denied). Allowed is a folder that this user owns or "
        "may write to: change its permissions (chmod, chown) or choose another --output.",
    )


def test_an_output_that_holds_foreign_files(case: Case) -> None:
    case.output.mkdir()
    (case.output / "holiday.mov").write_bytes(b"mine")
    case.before = snapshot(case.root)

    ended = case.run()
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        5,
        "",
        f"shardfeed: --output {case.output} holds files that are not a shardfeed build's: holiday.mov. Give an empty or new "
        "folder; nothing is ever overwritten.\n",
    )
    assert os.listdir(case.output) == ["holiday.mov"]
    assert (case.output / "holiday.mov").read_bytes() == b"mine"


# A disk with room for 40,000 bytes, whoever writes; what does not fit gets the system's own error.
FULL_DISK = """
import os, sys
if any("shardfeed" in arg for arg in sys.orig_argv):
    from shardfeed.transforms.stores.local import WritableLocalStore
    def limited(write):
        def limited_write(self, path, data, durable):
            size = data.seek(0, 2)
            files = [os.path.join(parent, name) for parent, _, names in os.walk(self.root) for name in names]
            if size + sum(os.path.getsize(file) for file in files if os.path.exists(file)) > 40_000:
                with open("/dev/full", "wb", buffering=0) as full:
                    full.write(b"x")
            data.seek(0)
            write(self, path, data, durable)
        return limited_write
    WritableLocalStore._write_temp = limited(WritableLocalStore._write_temp)
"""


def test_a_disk_that_is_full_in_the_middle_of_the_build(case: Case) -> None:
    site = case.root.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(FULL_DISK)
    write_photos(case.root, cow=60)
    before = snapshot(case.root)
    case.env = environment(PYTHONPATH=f"{site}:{environment()['PYTHONPATH']}")

    ended = case.run("--image_format", "raw", "--threads", "1")  # so no helper: its disk would not be full

    part = rf"{re.escape(str(case.output))}/_parts/[0-9a-f]{{32}}/train/\d{{5}}[-.]\S+"
    assert (ended.returncode, ended.stdout) == (4, "")
    assert re.fullmatch(
        rf"shardfeed: disk full: [\d,]+ bytes of {part} cannot be written \(No space left on device\)\. Free some space or "
        r"choose an --output on another disk, then run the same command again\.\n",
        ended.stderr,
    )
    assert case.published() == []
    assert snapshot(case.root) == before

    case.env = environment()
    assert case.succeeds("--image_format", "raw")["written"] == 72


@pytest.mark.parametrize("output", ["/proc/out", "/proc/deep/out"])
def test_an_output_where_no_folder_can_be_made(case: Case, output: str) -> None:
    case.fails(
        2,
        f"--output {output}: the system makes no folders in /proc. Give a folder on a disk (out/) or gs://bucket/folder.",
        output=output,
    )


@pytest.mark.parametrize("name", ["classes.txt", "manifest.json", "train-00000-of-00001.tfrecord", "_parts/CLAIM"])
def test_a_folder_with_the_name_of_a_file_in_the_output(case: Case, name: str) -> None:
    (case.output / name).mkdir(parents=True)

    ended = case.run()
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        5,
        "",
        f"shardfeed: --output {case.output} holds a folder {case.output}/{name}, where the build writes a file. Rename or remove "
        "the folder, or give another --output.\n",
    )
    assert os.listdir(case.output / name) == []


def test_an_output_that_could_be_made_is_not_left_behind(case: Case) -> None:
    case.output = case.root.parent / "new" / "deep" / "out"
    (case.root / "loose.jpg").write_bytes(photo(0))

    ended = case.run()
    assert (ended.returncode, (case.root.parent / "new").exists()) == (2, False)


def test_a_dataset_of_a_newer_version_in_the_output(case: Case) -> None:
    case.output.mkdir()
    (case.output / "manifest.json").write_text('{"schema_version": 2}')

    ended = case.run()
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        5,
        "",
        f"shardfeed: --output {case.output} holds a dataset already, which is never overwritten: {case.output}/manifest.json has "
        "schema_version 2; this shardfeed reads version 1. Install the shardfeed that wrote it, or build the dataset again. Or "
        "give another --output.\n",
    )
    assert os.listdir(case.output) == ["manifest.json"]


@pytest.mark.parametrize("name", ["nowhere", "cat/*.jpgg", "cat"])
def test_an_input_that_gives_no_dataset_discards_nothing(case: Case, name: str) -> None:
    for part in ("_parts/CLAIM", "_parts/" + "0" * 32 + "/train/00000.json"):
        (case.output / part).parent.mkdir(parents=True, exist_ok=True)
        (case.output / part).write_text('{"fingerprint": "0", "config": {}}')
    before = snapshot(case.output)

    assert case.run("--input", case.root / name, "--discard_incomplete").returncode == 2
    assert snapshot(case.output) == before


def test_an_output_bucket_that_is_not_there_is_named_before_the_input_is_listed(case: Case) -> None:
    with StrictGCS() as server:
        server.objects.put("photos", "cat/1.jpg", photo(0))
        case.env = environment(STORAGE_EMULATOR_HOST=server.url)
        case.fails(
            2,
            "bucket nowhere does not exist (gs://nowhere/out/manifest.json). Check the spelling, or create it: gcloud storage "
            "buckets create gs://nowhere",
            *("--input", "gs://photos"),
            output="gs://nowhere/out",
        )
        assert {request.bucket for request in server.log} == {"nowhere"}
