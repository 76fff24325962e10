"""Builds that are refused, as users meet them: exit code, message, and that nothing has happened.

The messages are proved where they are made; here is one of each kind, and those that only a whole
command can show.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.build_config import BuildConfig
from tests.kit import builds, disk, hooks
from tests.kit.builder import Ended
from tests.kit.commands import command, environment, photo, shardfeed, write_photos
from tests.kit.servers.strict_gcs import StrictGCS


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve good photos of two classes."""
    return write_photos(tmp_path / "in", cat=6, dog=6)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def outcome(ended: Ended | subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Exit code, result and message of a command; a fingerprint is different on each machine."""
    if isinstance(ended, Ended):
        ended = subprocess.CompletedProcess([], ended.code, ended.out, ended.err)
    return ended.returncode, ended.stdout, re.sub(r"/[0-9a-f]{32}/", "/FINGERPRINT/", ended.stderr)


def refused(code: int, message: str) -> tuple[int, str, str]:
    return code, "", f"shardfeed: {message}\n"


def paths(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@dataclass(frozen=True)
class Refusal:
    """A build after ``prepare(input, output)``, named {input} and {output}.

    ``keeps_parts``: the build fails after it has begun to encode, and finished parts stay.
    """

    code: int
    message: str
    prepare: Callable[[Path, Path], object] = lambda photos, out: None
    output: str = "{output}"
    keeps_parts: bool = False


def _write(name: str, data: bytes) -> Callable[[Path, Path], object]:
    """Writes a file below the folder that holds input and output."""

    def write(photos: Path, _out: Path) -> None:
        path = photos.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return write


REFUSALS = {
    "an image that may not be read": Refusal(
        2,
        "no permission to read {input}/dog/003.jpg. Make it readable (chmod u+r FILE; for all: chmod -R u+rX {input}) or move "
        "it out of the input.",
        prepare=lambda photos, _out: (photos / "dog" / "003.jpg").chmod(0),
        keeps_parts=True,
    ),
    "a class without one good image": Refusal(
        3,
        "no image of 1 class can be used: cow. Rejected: EMPTY 1. Nothing was published. Repair those images, or take their "
        "folders out of --input, then rerun with --discard_incomplete.\nRejects:\n"
        "  {output}/_parts/FINGERPRINT/rejects/rejects-00000-of-00001.jsonl",
        prepare=_write("in/cow/1.jpg", b""),
        keeps_parts=True,
    ),
    "an output that may not be written": Refusal(
        2,
        "cannot write to the output: {output}/_parts/CLAIM (Permission denied). Allowed is a folder that this user owns or may "
        "write to: change its permissions (chmod, chown) or choose another --output.",
        prepare=lambda _photos, out: out.mkdir(mode=0o555),
    ),
    "a folder with a file's name": Refusal(
        5,
        "--output {output} holds a folder {output}/classes.txt, where the build writes a file. Rename or remove the folder, or "
        "give another --output.",
        prepare=lambda _photos, out: (out / "classes.txt").mkdir(parents=True),
    ),
    "an output that no system can hold": Refusal(
        2,
        "--output /proc/deep/out: the system makes no folders in /proc. Give a folder on a disk (out/) or gs://bucket/folder.",
        output="/proc/deep/out",
    ),
    "an output whose folders are new, of an input that gives no dataset": Refusal(
        2,
        "1 image lies directly in the input root, without a class folder: loose.jpg. Move each into the folder of its class "
        "(ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg'). If the class is no folder, say where it comes from: "
        "--metadata TABLE --label_column NAME, or --label_from regex or none.",
        prepare=_write("in/loose.jpg", photo(0)),
        output="{output}/new/deep",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_build_that_is_refused_says_why_and_does_nothing(what: str, photos: Path, out: Path) -> None:
    case = REFUSALS[what]
    case.prepare(photos, out)
    named = {"input": photos, "output": out}
    before, there = disk.snapshot(photos), paths(photos.parent)

    arguments = ["--input", str(photos), "--output", case.output.format(**named), "--image_size", "16"]
    ended = builds.run("build", *arguments, hooks=[hooks.obey_permissions])

    assert outcome(ended) == refused(case.code, case.message.format(**named))
    assert disk.snapshot(photos) == before
    parts = {path for path in paths(photos.parent) if path == out or out / "_parts" in (path, *path.parents)}
    assert paths(photos.parent) == there | (parts if case.keeps_parts else set())


@pytest.mark.parametrize("name", ["nowhere", "cat/*.jpgg", "cat"])
def test_an_input_that_gives_no_dataset_discards_nothing(name: str, photos: Path, out: Path) -> None:
    for part in ("_parts/CLAIM", "_parts/" + "0" * 32 + "/train/00000.json"):
        _write(f"out/{part}", b'{"fingerprint": "0", "config": {}}')(photos, out)
    before = disk.snapshot(out)

    assert builds.build(photos / name, out, "--discard_incomplete").code == 2
    assert disk.snapshot(out) == before


def test_a_disk_that_is_full_in_the_middle_of_the_build(photos: Path, out: Path) -> None:
    write_photos(photos, cow=60)
    before = disk.snapshot(photos)

    ended = builds.build(photos, out, "--image_format", "raw", hooks=[partial(hooks.fill_disk, 3_000)])

    part = rf"{re.escape(str(out))}/_parts/[0-9a-f]{{32}}/train/\d{{5}}[-.]\S+"
    assert (ended.code, ended.out) == (4, "")
    assert re.fullmatch(
        rf"shardfeed: disk full: [\d,]+ bytes of {part} cannot be written \(No space left on device\)\. Free some space or "
        r"choose an --output on another disk, then run the same command again\.\n",
        ended.err,
    )
    assert (os.listdir(out), disk.snapshot(photos)) == (["_parts"], before)

    builds.built(photos, out, "--image_format", "raw")
    assert disk.manifest(out)["written"] == 72


# What belongs to a process, which the builder's children cannot change


def test_an_accented_input_folder_while_python_takes_names_for_ascii(photos: Path, out: Path) -> None:
    photos = photos.rename(f"{photos}-é")
    flags = ("build", "--input", photos, "--output", out, "--image_size", "16")

    assert outcome(shardfeed(*flags, LC_ALL="C", PYTHONUTF8="0")) == refused(
        2,
        f"--input {out.parent}/in-\\xe9: Python reads names here as ascii, which has no such characters. Set PYTHONUTF8=1, then "
        "run the command again.",
    )
    ended = shardfeed(*flags, "--json", LC_ALL="C", PYTHONUTF8="1")
    assert (ended.returncode, ended.stderr, json.loads(ended.stdout)["written"]) == (0, "", 12)


def test_a_current_folder_that_has_been_deleted(tmp_path: Path) -> None:
    build = command("build", "--input", "in", "--output", "out")
    script = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *build]
    ended = subprocess.run(script, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)

    assert outcome(ended) == refused(
        2,
        "the current folder has been deleted, so that relative paths mean nothing. Change to a folder that is there (cd), then "
        "run the command again.",
    )


# Buckets


def test_credentials_in_a_file_that_is_not_there(out: Path) -> None:
    path = out.parent / "key.json"
    with StrictGCS() as metadata:
        address = metadata.url.removeprefix("http://")
        names = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP", "METADATA_HOST", "METADATA_IP"), address)
        env = {"STORAGE_EMULATOR_HOST": "", "GOOGLE_APPLICATION_CREDENTIALS": str(path), **names}
        ended = builds.run("build", "--input", "gs://photos", "--output", str(out), env=env)
        assert metadata.connections == 0

    assert outcome(ended) == refused(
        2,
        f"GOOGLE_APPLICATION_CREDENTIALS names {path}, which does not exist. Name a service account's key file, or unset it and "
        "log in with: gcloud auth application-default login",
    )


def test_an_output_bucket_that_is_not_there_is_named_before_the_input_is_listed() -> None:
    with StrictGCS() as server:
        server.objects.put("photos", "cat/1.jpg", photo(0))
        flags = ("--input", "gs://photos", "--output", "gs://nowhere/out")
        ended = builds.run("build", *flags, env={"STORAGE_EMULATOR_HOST": server.url})
        assert {request.bucket for request in server.log} == {"nowhere"}

    assert outcome(ended) == refused(
        2,
        "bucket nowhere does not exist (gs://nowhere/out/manifest.json). Check the spelling, or create it: gcloud storage "
        "buckets create gs://nowhere",
    )


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("gs://pho*s/in", "gs://data/out", "--input gs://pho*s/in: a glob cannot choose among buckets. Name the"),
        ("gs:///in", "gs://data/out", "gs:///in names no bucket;"),
        ("file:///photos", "out", "input file:///photos: file:// is not supported; allowed: a local path, gs://"),
        ("in", "s3://bucket/out", "output s3://bucket/out: s3:// is not supported; allowed: a local path or gs://"),
        ("GS://photos", "gs://photos/out", "--output gs://photos/out lies inside --input gs://photos:"),
        ("gs://photos/in/", "gs://photos/in", "--output gs://photos/in is --input gs://photos/in:"),
    ],
)
def test_an_address_that_cannot_be_is_refused_from_the_arguments_alone(source: str, target: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        BuildConfig((source,), target)
