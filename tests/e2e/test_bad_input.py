"""Everything a user can get wrong, once each, through the real command line in a process of its own.

Each test asserts the exit code, the whole message, that nothing was published and that nothing of the input was touched.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.pipeline.photos import command, environment, photo, said, write_photos

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2  # linux/prctl.h, linux/capability.h
REMEDY_CLASS_LIST = "Give one class a line, each once, in label order."


def _snapshot(folder: Path) -> dict[bytes, tuple[int, int, int, bytes]]:
    """Every file and folder below: mode, size, modification time, content."""
    found = {}
    for parent, folders, files in os.walk(os.fsencode(folder)):
        for name in (b"", *folders, *files):
            path = os.path.join(parent, name)
            stat = os.lstat(path)
            content = b""
            if os.path.isfile(path) and os.access(path, os.R_OK):
                with open(path, "rb") as file:
                    content = file.read()
            found[path] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, content)
    return found


@dataclass
class _Case:
    """An input and an output, and builds from one to the other in processes of their own."""

    root: Path
    output: Path
    before: dict[bytes, tuple[int, int, int, bytes]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=environment)

    def fails(self, code: int, message: str, *args: str | Path, output: Path | str | None = None) -> None:
        """The build ends with ``code`` and ``message``, publishes nothing and leaves the input as it was."""
        self.before = _snapshot(self.root)
        ended = self._run(*args, output=output)

        message_shown = re.sub(r"/[0-9a-f]{32}/", "/FINGERPRINT/", ended.stderr)
        assert (ended.returncode, ended.stdout, message_shown) == (code, "", f"shardfeed: {message}\n")
        self.unchanged()
        assert self.published() == []

    def succeeds(self, *args: str | Path) -> dict[str, object]:
        """The build ends with 0; its summary."""
        self.before = _snapshot(self.root)
        ended = self._run(*args, "--json")

        assert (ended.returncode, ended.stderr) == (0, "")
        self.unchanged()
        return dict(json.loads(ended.stdout))

    def unchanged(self) -> None:
        assert _snapshot(self.root) == self.before

    def published(self) -> list[str]:
        """Names at the top of the output other than work in progress."""
        return sorted(os.listdir(self.output)) if self.output.is_dir() and not self._only_parts() else []

    def _only_parts(self) -> bool:
        return os.listdir(self.output) == ["_parts"]

    def _run(self, *args: str | Path, output: Path | str | None = None) -> subprocess.CompletedProcess[str]:
        arguments: list[str | Path] = [] if "--input" in args else ["--input", self.root]
        arguments += ["--output", self.output if output is None else output, "--image_size", "16"]
        ended = subprocess.run(
            command("build", *arguments, *args), capture_output=True, text=True, timeout=120, check=False, env=self.env,
            cwd=self.root.parent, preexec_fn=_obey_permissions,
        )  # fmt: skip
        ended.stderr = said(ended.stderr)
        return ended


def _obey_permissions() -> None:
    """Permissions bind root too, once these capabilities are gone; they are nobody else's to begin with."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture
def case(tmp_path: Path) -> _Case:
    """Twelve good photos of two classes."""
    return _Case(write_photos(tmp_path / "in", cat=6, dog=6), tmp_path / "out")


# The input


def test_an_empty_input_folder(case: _Case) -> None:
    empty = case.root / "empty"
    empty.mkdir()

    case.fails(
        2,
        "no images found in the input. Expected ROOT/class/image.jpg with suffixes such as .jpg, .png, .webp, .gif, .bmp. Check "
        "--input.",
        *("--input", empty),
    )


def test_an_input_that_is_not_there(case: _Case) -> None:
    case.fails(
        2,
        f"input folder {case.root}/nowhere does not exist. Check the spelling; relative paths start at the current folder.",
        *("--input", case.root / "nowhere"),
    )


def test_an_input_that_is_a_file(case: _Case) -> None:
    case.fails(
        2,
        f"input folder {case.root}/cat/000.jpg is not a folder. Name the folder that holds one folder a class.",
        *("--input", case.root / "cat" / "000.jpg"),
    )


def test_a_folder_that_may_not_be_read(case: _Case) -> None:
    (case.root / "dog").chmod(0o300)
    try:
        case.fails(
            2,
            f"input folder {case.root}/dog may not be listed. Make it readable (chmod -R u+rX {case.root}) or move it out of the "
            "input.",
        )
    finally:
        (case.root / "dog").chmod(0o755)


def test_an_image_that_may_not_be_read(case: _Case) -> None:
    path = case.root / "dog" / "003.jpg"
    path.chmod(0)

    case.fails(
        2,
        f"no permission to read {path}. Make it readable (chmod u+r FILE; for all: chmod -R u+rX {case.root}) or move it out of "
        "the input.",
    )


def test_only_files_that_are_not_images(case: _Case) -> None:
    notes = case.root.parent / "notes"
    (notes / "cat").mkdir(parents=True)
    for name in ("a.txt", "b.csv", ".hidden.jpg"):
        (notes / "cat" / name).touch()
    case.root = notes

    case.fails(
        2,
        "no images found in the input (skipped: 1 hidden, 2 suffix). Expected ROOT/class/image.jpg with suffixes such as .jpg, "
        ".png, .webp, .gif, .bmp. Check --input.",
    )


def test_images_at_the_root(case: _Case) -> None:
    for name in ("b.jpg", "a.jpg"):
        (case.root / name).write_bytes(photo(0))

    case.fails(
        2,
        "2 images lie directly in the input root, without a class folder: a.jpg, b.jpg. Move each into the folder of its class "
        "(ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg').",
    )


def test_one_root_inside_another(case: _Case) -> None:
    case.fails(
        2,
        f"--input {case.root}/cat lies inside --input {case.root}: its images would be listed twice with different classes. Give "
        "only one of them, or build two datasets.",
        *("--input", case.root, "--input", case.root / "cat"),
    )


def test_the_same_key_in_two_roots(case: _Case) -> None:
    second = case.root.parent / "second"
    (second / "cat").mkdir(parents=True)
    (second / "cat" / "003.jpg").write_bytes(photo(9))

    case.fails(
        2,
        f"cat/003.jpg is in two inputs: {case.root} and {second}. A key is a record's name and must be unique: give one --input "
        "that holds both as folders, or rename, then rerun with --discard_incomplete.",
        *("--input", case.root, "--input", second),
    )


def test_a_class_folder_whose_name_is_not_utf8(case: _Case) -> None:
    folder = os.fsencode(case.root) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/1.jpg", "wb") as file:
        file.write(photo(0))

    case.fails(
        2,
        "1 images lie in a class folder whose name is not UTF-8: caf\\xe9/1.jpg. Rename the folder: its name becomes a label.",
    )


def test_a_file_whose_name_is_not_utf8_is_a_reject(case: _Case) -> None:
    with open(os.fsencode(case.root) + b"/cat/caf\xe9.jpg", "wb") as file:
        file.write(photo(0))

    summary = case.succeeds()
    assert (summary["written"], summary["rejected"]) == (12, {"NAME": 1})
    assert json.loads((case.output / "rejects-00000-of-00001.jsonl").read_text()) == {
        "key": "cat/caf\\xe9.jpg",
        "reason": "NAME",
        "detail": "the file name is not UTF-8; rename it",
    }


def test_a_class_without_one_good_image(case: _Case) -> None:
    (case.root / "cow").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (case.root / "cow" / name).write_bytes(b"")

    case.fails(
        3,
        "no image of 1 class(es) can be used: cow. Rejected: EMPTY 2. Nothing was published. Mend those images, or take the "
        "folder(s) out of --input, then rerun with --discard_incomplete.\nRejects:\n"
        f"  {case.output}/_parts/FINGERPRINT/rejects/rejects-00000-of-00001.jsonl",
    )


def test_folders_that_look_like_splits(case: _Case) -> None:
    (case.root / "cat").rename(case.root / "train")
    (case.root / "dog").rename(case.root / "test")

    case.fails(
        2,
        "the top folders are test, train: they look like splits, not classes. Give --splits folders to take the split from the "
        "first folder and the class from the second.",
    )


def test_folders_that_look_alike(case: _Case) -> None:
    write_photos(case.root, Cat=1)

    case.fails(
        2,
        "class folders 'Cat' and 'cat' differ only in case, spaces or Unicode form. They would be two classes. Rename one, or "
        "move its images into the other.",
    )


# The output


def test_the_output_is_the_input(case: _Case) -> None:
    case.fails(
        2,
        f"--output {case.root} is --input {case.root}: the next build would list its own files, and the input is never written "
        "to. Give an --output outside of it.",
        output=case.root,
    )


def test_the_output_lies_inside_the_input(case: _Case) -> None:
    case.fails(
        2,
        f"--output {case.root}/out lies inside --input {case.root}: the next build would list its own files, and the input is "
        "never written to. Give an --output outside of it.",
        output=case.root / "out",
    )


def test_the_input_lies_inside_the_output(case: _Case) -> None:
    case.fails(
        2,
        f"--output {case.root.parent} contains --input {case.root}: the next build would list its own files, and the input is "
        "never written to. Give an --output outside of it.",
        output=case.root.parent,
    )


def test_glob_characters_in_the_output(case: _Case) -> None:
    case.fails(
        2,
        "--output out[1] has characters that file globs use (* ? [ ]); engines and readers would misread it. Give a plain path.",
        output="out[1]",
    )


def test_the_output_is_a_file(case: _Case) -> None:
    case.output = case.root.parent / "file"
    case.output.write_bytes(b"mine")

    case.fails(
        2,
        f"cannot use {case.output}/_parts/CLAIM (Not a directory). Something that is not a folder stands in the way: remove it "
        "or choose another --output.",
    )
    assert case.output.read_bytes() == b"mine"


def test_an_output_that_may_not_be_written(case: _Case) -> None:
    case.output.mkdir(mode=0o555)

    case.fails(
        2,
        f"cannot write to the output: {case.output}/_parts/CLAIM (Permission denied). Allowed is a folder that this user owns or "
        "may write to: change its permissions (chmod, chown) or choose another --output.",
    )


def test_an_output_that_holds_foreign_files(case: _Case) -> None:
    case.output.mkdir()
    (case.output / "holiday.mov").write_bytes(b"mine")
    case.before = _snapshot(case.root)

    ended = case._run()
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        5,
        "",
        f"shardfeed: --output {case.output} holds files that are not a shardfeed build's: holiday.mov. Give an empty or new "
        "folder; nothing is ever overwritten.\n",
    )
    assert os.listdir(case.output) == ["holiday.mov"]
    assert (case.output / "holiday.mov").read_bytes() == b"mine"


# A disk with room for 40,000 bytes; what does not fit gets the system's own error.
FULL_DISK = """
import sys
if "pipeline" in sys.orig_argv:
    from shardfeed.storage.local import LocalStore
    left = [40_000]
    def limited(write):
        def limited_write(self, path, data, durable):
            left[0] -= len(data) if isinstance(data, bytes) else data.seek(0, 2)
            if left[0] < 0:
                with open("/dev/full", "wb", buffering=0) as full:
                    full.write(b"x")
            if not isinstance(data, bytes):
                data.seek(0)
            write(self, path, data, durable)
        return limited_write
    LocalStore._write_temp = limited(LocalStore._write_temp)
    LocalStore._copy_temp = limited(LocalStore._copy_temp)
"""


def test_a_disk_that_is_full_in_the_middle_of_the_build(case: _Case) -> None:
    site = case.root.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(FULL_DISK)
    write_photos(case.root, cow=60)
    before = _snapshot(case.root)
    case.env = environment(PYTHONPATH=f"{site}:{environment()['PYTHONPATH']}")

    ended = case._run("--image_format", "raw")

    part = rf"{re.escape(str(case.output))}/_parts/[0-9a-f]{{32}}/train/\d{{5}}[-.]\S+"
    assert (ended.returncode, ended.stdout) == (4, "")
    assert re.fullmatch(
        rf"shardfeed: disk full: [\d,]+ bytes of {part} cannot be written \(No space left on device\)\. Free some space or "
        r"choose an --output on another disk, then run the same command again\.\n",
        ended.stderr,
    )
    assert case.published() == []
    assert _snapshot(case.root) == before

    case.env = environment()
    assert case.succeeds("--image_format", "raw")["written"] == 72


# The flags


def test_an_unknown_flag(case: _Case) -> None:
    case.fails(
        2,
        "build: unknown argument --imagesize; did you mean --image_size? See `shardfeed build --help`.",
        *("--imagesize", "64"),
    )


@pytest.mark.parametrize("size", ["0", "100000"])
def test_a_size_that_cannot_be(case: _Case, size: str) -> None:
    case.fails(
        2,
        f"--image_size: a side of {size} pixels; allowed are 1 to 8,192. Example: --image_size 224",
        *("--image_size", size),
    )


def test_more_shards_than_images(case: _Case) -> None:
    case.fails(
        2,
        "--num_shards 13 for train, which has 12 images: a shard is never empty. Give at most 12.",
        *("--num_shards", "13"),
    )


def test_splits_that_do_not_add_up(case: _Case) -> None:
    case.fails(
        2,
        "--splits train=0.8,test=0.1: the shares add up to 0.9; each must be above 0 and together they must be exactly 1. "
        "Example: --splits train=0.8,validation=0.1,test=0.1",
        *("--splits", "train=0.8,test=0.1"),
    )


def test_a_split_that_no_image_falls_into(case: _Case) -> None:
    case.fails(
        2,
        "--splits train=0.999999,test=0.000001: none of 12 images falls into test. The split follows from a hash of the key, so "
        "small shares of few images can be empty. Give larger shares or more images, or choose by hand with --splits folders.",
        *("--splits", "train=0.999999,test=0.000001"),
    )


def test_splits_by_folders_without_split_folders(case: _Case) -> None:
    case.fails(
        2,
        "with --splits folders the first folder must be a split and the second a class (ROOT/train/cat/1.jpg); 12 images lie "
        "elsewhere: cat/000.jpg, cat/001.jpg, cat/002.jpg, cat/003.jpg, cat/004.jpg. Allowed splits: train, validation (val, "
        "valid), test. Move them, or use another --splits.",
        *("--splits", "folders"),
    )


def test_a_class_list_that_is_not_there(case: _Case) -> None:
    path = case.root.parent / "classes.txt"

    case.fails(
        2,
        f"--class_list {path} cannot be read: [Errno 2] No such file or directory: '{path}'. Give a UTF-8 text file, one class a "
        "line.",
        *("--class_list", path),
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("cat\ndog\ncat\n", "names cat twice. " + REMEDY_CLASS_LIST),
        ("\n", "names no classes. " + REMEDY_CLASS_LIST),
    ],
    ids=["twice", "empty"],
)
def test_a_class_list_that_cannot_be(case: _Case, content: str, problem: str) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text(content)

    case.fails(2, f"--class_list {path} {problem}", *("--class_list", path))


def test_a_folder_that_is_not_in_the_class_list(case: _Case) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text("cat\n")

    case.fails(
        2,
        "folders that are not in --class_list: dog. Allowed: cat. Add them to the list, rename them, or leave them out of "
        "--input.",
        *("--class_list", path),
    )


def test_a_class_of_the_list_without_images(case: _Case) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text("cat\ncow\ndog\n")

    case.fails(
        2,
        "classes of --class_list without a single image: cow. Add images, or take them out of the list.",
        *("--class_list", path),
    )


def test_an_engine_that_gives_wrong_results(case: _Case) -> None:
    case.fails(
        2,
        "--runner DaskRunner: Beam's Dask runner gives wrong results for graphs with side branches (it runs only the last one, "
        "and exits 0). Use DirectRunner, PrismRunner, FlinkRunner, SparkRunner or DataflowRunner.",
        *("--runner", "DaskRunner"),
    )
