"""What is wrong with a flag or with where a command is run, once each."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.refusals import Case
from tests.kit import commands as photos

REMEDY_CLASS_LIST = "Give one class a line, each once, in label order."


def test_an_unknown_flag(case: Case) -> None:
    case.fails(
        2,
        "build: unknown argument --imagesize; did you mean --image_size? See `shardfeed build --help`.",
        *("--imagesize", "64"),
    )


def test_an_option_of_beam_without_a_runner(case: Case) -> None:
    case.fails(
        2,
        "unknown argument --experiments. If it is an option of Apache Beam, it needs --runner (for example --runner "
        "DirectRunner). For shardfeed's own flags see `shardfeed build --help`.",
        *("--experiments", "use_runner_v2"),
    )


@pytest.mark.parametrize("size", ["0", "100000"])
def test_a_size_that_cannot_be(case: Case, size: str) -> None:
    case.fails(
        2,
        f"--image_size: a side of {size} pixels; allowed are 1 to 8,192. Example: --image_size 224",
        *("--image_size", size),
    )


def test_more_shards_than_images(case: Case) -> None:
    case.fails(
        2,
        "--num_shards 13 for train, which has 12 images: a shard is never empty. Give at most 12.",
        *("--num_shards", "13"),
    )


def test_splits_that_do_not_add_up(case: Case) -> None:
    case.fails(
        2,
        "--splits train=0.8,test=0.1: the shares add up to 0.9; each must be above 0 and together they must be exactly 1. "
        "Example: --splits train=0.8,validation=0.1,test=0.1",
        *("--splits", "train=0.8,test=0.1"),
    )


def test_a_split_that_no_image_falls_into(case: Case) -> None:
    case.fails(
        2,
        "--splits train=0.999999,test=0.000001: none of 12 images falls into test. The split follows from a hash of the key, so "
        "small shares of few images can be empty. Give larger shares or more images, or choose by hand with --splits folders.",
        *("--splits", "train=0.999999,test=0.000001"),
    )


def test_splits_by_folders_without_split_folders(case: Case) -> None:
    case.fails(
        2,
        "with --splits folders the first folder must be a split and the second a class (ROOT/train/cat/1.jpg); 12 images lie "
        "elsewhere: cat/000.jpg, cat/001.jpg, cat/002.jpg, cat/003.jpg, cat/004.jpg. Allowed splits: train, validation (val, "
        "valid), test. Move them, or use another --splits.",
        *("--splits", "folders"),
    )


def test_a_class_list_that_is_not_there(case: Case) -> None:
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
def test_a_class_list_that_cannot_be(case: Case, content: str, problem: str) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text(content)

    case.fails(2, f"--class_list {path} {problem}", *("--class_list", path))


def test_a_folder_that_is_not_in_the_class_list(case: Case) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text("cat\n")

    case.fails(
        2,
        "folders that are not in --class_list: dog. Allowed: cat. Add them to the list, rename them, or leave them out of "
        "--input.",
        *("--class_list", path),
    )


def test_a_class_of_the_list_without_images(case: Case) -> None:
    path = case.root.parent / "classes.txt"
    path.write_text("cat\ncow\ndog\n")

    case.fails(
        2,
        "classes of --class_list without a single image: cow. Add images, or take them out of the list.",
        *("--class_list", path),
    )


def test_an_engine_that_gives_wrong_results(case: Case) -> None:
    case.fails(
        2,
        "--runner DaskRunner: Beam's Dask runner gives wrong results for graphs with side branches (it runs only the last one, "
        "and exits 0). Use DirectRunner, FnApiRunner, PrismRunner, PortableRunner, FlinkRunner, SparkRunner or DataflowRunner.",
        *("--runner", "DaskRunner"),
    )


def test_a_mode_that_waits_for_ever_for_a_worker_that_died(case: Case) -> None:
    case.fails(
        2,
        "--direct_running_mode multi_processing: in this mode the build waits for ever if one of its worker processes dies. "
        "Leave out --runner DirectRunner and Beam's flags: a build without --runner uses all cores by itself. Or keep --runner "
        "DirectRunner without this flag.",
        *("--runner", "DirectRunner", "--direct_running_mode", "multi_processing", "--direct_num_workers", "2"),
    )


def test_a_cloud_without_project_region_and_a_place_for_files(case: Case) -> None:
    case.fails(
        2,
        "--runner DataflowRunner also needs --project my-project, --temp_location gs://bucket/folder. run_dataflow.sh gives all "
        "of them: PROJECT=… REGION=… ./run_dataflow.sh INPUT OUTPUT",
        *("--input", "gs://nobody-asks/in", "--runner", "DataflowRunner", "--region=us-central1"),
        output="gs://nobody-asks/out",
    )


def test_a_value_that_beam_refuses(case: Case) -> None:
    ended = case.run("--runner", "DirectRunner", "--direct_running_mode", "bogus")
    assert (ended.returncode, ended.stdout, ended.stderr.replace("'", "")) == (
        2,
        "",
        "shardfeed: build: Beam does not take this: argument --direct_running_mode: invalid choice: bogus (choose from "
        "in_memory, multi_threading, multi_processing). See `shardfeed build --help`.\n",
    )


@pytest.mark.parametrize("command", ["build --input in --output out", "verify out"])
def test_a_current_folder_that_has_been_deleted(case: Case, command: str) -> None:
    here = case.root.parent / "here"
    here.mkdir()
    ended = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *photos.command(*command.split())],
        capture_output=True, text=True, env=case.env, cwd=here, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "shardfeed: the current folder has been deleted, so that relative paths mean nothing. Change to a folder that is there "
        "(cd), then run the command again.\n",
    )
