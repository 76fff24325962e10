"""The measuring itself, on tiny datasets: every figure is taken, whatever is measured. Nothing here looks at a clock."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.cli.main import main
from tests.kit.datasets import write_dataset


@pytest.mark.parametrize("image_format", ["jpeg", "raw"])
@pytest.mark.parametrize("reader", ["load", "array_batches"])
def test_every_figure_is_measured(tmp_path: Path, reader: str, image_format: str) -> None:
    write_dataset(tmp_path, image_format=image_format)
    info = shardfeed.info(tmp_path)

    found = shardfeed.benchmark(getattr(shardfeed, reader)(info, "train", 8), info, seconds=0.05, step_ms=4)

    assert found.images_per_second > 0 and found.per_core == found.images_per_second / found.cores
    assert found.megabytes_per_second == pytest.approx(
        found.images_per_second * info.splits["train"].bytes / 37 / 1e6, 1e-9
    )
    assert found.decode_limit and found.read_limit and found.first_batch_seconds > 0
    assert (found.batch_size, found.needed, found.remote) == (8, 2000, False)


@pytest.mark.parametrize("reader", ["load", "array_batches"])
def test_a_stream_that_ends_is_started_again(tmp_path: Path, reader: str) -> None:
    write_dataset(tmp_path)

    batches = getattr(shardfeed, reader)(tmp_path, "validation", 5)

    assert shardfeed.benchmark(batches, tmp_path, "validation", seconds=0.2).images_per_second > 0


@pytest.mark.parametrize("reader", ["load", "array_batches"])
def test_an_iterator_is_measured_to_its_end(tmp_path: Path, reader: str) -> None:
    write_dataset(tmp_path)
    batches = getattr(shardfeed, reader)(tmp_path, "train", 8)

    found = shardfeed.benchmark(itertools.islice(batches, 3), tmp_path, seconds=0.3)

    assert found.batch_size == 8 and found.images_per_second > 0


def test_an_iterator_of_tensorflow_says_itself_where_it_comes_from(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    found = shardfeed.benchmark(iter(shardfeed.load(tmp_path, "train", 8).take(3)), seconds=0.3)

    assert found.batch_size == 8 and not found.added


def test_an_iterator_of_one_batch_cannot_be_measured(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    with pytest.raises(shardfeed.UsageError, match=r"ended after 1 batch and cannot be started again: pass what load"):
        shardfeed.benchmark(iter(shardfeed.load(tmp_path, "train", 8).take(1)), seconds=0.1)


@pytest.mark.parametrize(
    ("options", "decoded"),
    [
        ({}, (8, 12)),
        ({"image_size": 4, "crop": "center"}, (4, 4)),
        ({"image_size": (6, 4), "crop": "random_resized"}, (6, 4)),
    ],
    ids=["as stored", "cut in the middle", "cut at random"],
)
def test_the_limit_decodes_cuts_and_resizes_as_the_stream_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], decoded: tuple[int, int]
) -> None:
    from shardfeed.benchmarking import limits

    write_dataset(tmp_path)
    asked: list[Any] = []
    decode = limits._tensorflow_decoding

    def watched(found: Any, wanted: Any, sample: Any) -> Any:
        asked.append(wanted)
        return decode(found, wanted, sample)

    monkeypatch.setattr(limits, "_tensorflow_decoding", watched)

    found = shardfeed.benchmark(shardfeed.load(tmp_path, "train", 8, **options), seconds=0.05)

    assert [(wanted.size, wanted.crop) for wanted in asked] == [(decoded, options.get("crop"))]
    assert found.decode_limit


def test_images_of_any_size_have_a_limit(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None)

    assert shardfeed.benchmark(shardfeed.load(tmp_path, "train", 8, image_size=6), seconds=0.05).decode_limit


def test_decoded_images_in_memory_have_no_limits(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    found = shardfeed.benchmark(shardfeed.load(tmp_path, "train", 8, cache="decoded"), seconds=0.05)

    assert (found.decode_limit, found.read_limit, found.bottleneck) == (None, None, "copying")


def test_copies_of_the_shards_are_what_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out")
    batches = shardfeed.load(tmp_path / "out", "train", 8, cache=tmp_path / "ssd")
    for shard in (tmp_path / "out").glob("*.tfrecord"):
        shard.unlink()

    found = shardfeed.benchmark(batches, seconds=0.05)

    assert found.read_limit and found.decode_limit and not found.remote


@pytest.mark.parametrize(
    ("change", "added"),
    [
        (lambda batches: batches, False),
        (lambda batches: batches.take(100).prefetch(1), False),
        (lambda batches: batches.map(lambda x, y: (x[:, ::-1], y)), True),
    ],
    ids=["nothing", "no work", "a map"],
)
def test_it_sees_what_was_added_behind_the_reader(tmp_path: Path, change: Callable[[Any], Any], added: bool) -> None:
    write_dataset(tmp_path)

    assert shardfeed.benchmark(change(shardfeed.load(tmp_path, "train", 8)), seconds=0.01).added is added


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    found = shardfeed.benchmark(
        shardfeed.array_batches(tmp_path, "train", 8), seconds=np.float32(0.01), step_ms=np.int64(4)
    )

    assert found.needed == 2000


def test_batches_may_be_dicts(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = [{"image": x, "label": y} for x, y in shardfeed.array_batches(tmp_path, "train", 4, epochs=1)]

    assert shardfeed.benchmark(batches, tmp_path, seconds=0.01).batch_size == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds=0: expected a number above 0 and below 1e12."),
        ({"seconds": True}, "seconds=True: expected a number above 0 and below 1e12."),
        ({"seconds": None}, "seconds=None: expected a number above 0 and below 1e12."),
        ({"seconds": float("inf")}, "seconds=inf: expected a number above 0 and below 1e12."),
        ({"seconds": 10**400}, f"seconds=1{'0' * 198}…: expected a number above 0 and below 1e12."),
        ({"step_ms": "22"}, "step_ms='22': expected a number above 0 and below 1e12."),
        ({"split": "validation"}, "split=validation: these batches come from train. Leave split out."),
        ({"batches": [], "split": "test"}, "split 'test' is not in the dataset"),
        ({"batches": []}, "there are no batches to measure: expected what load or array_batches gives"),
        (
            {"batches": [1, 2]},
            "a batch is int, whose images cannot be counted: expected what load or array_batches gives",
        ),
        ({"batches": [()]}, "a batch is tuple, whose images cannot be counted"),
        ({"batches": 5}, "batches=5: expected what load or array_batches gives"),
        ({"batches": [], "dataset": None}, "batches of list do not say which dataset they come from. Pass it: "),
        ({"dataset": 3}, "dataset=3: expected what shardfeed.info gives, a folder or gs://"),
    ],
    ids=[
        "no seconds",
        "true seconds",
        "seconds of None",
        "endless seconds",
        "more seconds than a float holds",
        "a step of text",
        "another split",
        "an unknown split",
        "no batches",
        "numbers",
        "empty batches",
        "no iterable",
        "no dataset",
        "a dataset that is none",
    ],
)
def test_arguments_that_cannot_be(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_dataset(tmp_path)
    arguments = {
        "batches": shardfeed.array_batches(tmp_path, "train", 8),
        "dataset": tmp_path,
        "seconds": 0.01,
        **options,
    }

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.benchmark(**arguments)

    assert message in str(found.value)


@pytest.mark.parametrize("reader", ["tensorflow", "arrays"])
def test_the_command_prints_the_figures_and_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    write_dataset(tmp_path)

    code = main(["benchmark", str(tmp_path), "--reader", reader, "--batch_size", "8", "--seconds", "0.05"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split("  ")[0].partition(" alone")[0] for line in lines[:4]] == [
        "input",
        "first batch",
        "decoding",
        "reading",
    ]
    # The verdict is «doubtful» where another program took the machine in the middle: what is true is the machine's affair.
    assert lines[-1].startswith(("Bottleneck: ", "Doubtful: "))


@pytest.mark.parametrize("reader", ["tensorflow", "arrays"])
def test_the_command_measures_this_process_alone_wherever_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    write_dataset(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "3")

    assert main(["benchmark", str(tmp_path), "--batch_size", "8", "--seconds", "0.01", "--reader", reader]) == 0


def test_the_command_gives_json_of_another_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path)

    code = main(
        [
            "benchmark",
            str(tmp_path),
            "validation",
            "--reader=arrays",
            "--batch_size=5",
            "--step_ms=1e9",
            "--seconds=0.05",
            "--json",
        ]
    )

    found = json.loads(capsys.readouterr().out)
    assert (code, found["batch_size"], found["fast_enough"], found["bottleneck"]) == (0, 5, True, "consumer")


def test_the_command_resizes_and_cuts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path, size=None)

    code = main(
        ["benchmark", str(tmp_path), "--image_size=6x4", "--crop=center", "--batch_size=8", "--seconds=0.05", "--json"]
    )

    assert (code, json.loads(capsys.readouterr().out)["decode_limit"] is None) == (0, False)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--seconds=0", "seconds=0.0: expected a number above 0 and below 1e12."),
        ("--step_ms=-1", "step_ms=-1.0: expected a number above 0 and below 1e12."),
        ("--batch_size=0", "batch_size=0: expected an integer of at least 1."),
        ("--image_size=0", "image_size"),
        ("split", "split 'split' is not in the dataset"),
    ],
)
def test_the_command_checks_its_arguments_before_it_imports_tensorflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: str, message: str
) -> None:
    write_dataset(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.delattr(shardfeed, "load", raising=False)
    monkeypatch.delitem(sys.modules, "shardfeed.load", raising=False)

    try:
        code: object = main(["benchmark", str(tmp_path), flag])
    except SystemExit as left:
        code = left.code

    assert code == 2 and message in capsys.readouterr().err


def test_the_reader_without_tensorflow_does_not_resize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path)

    assert main(["benchmark", str(tmp_path), "--reader=arrays", "--image_size=6"]) == 2
    assert capsys.readouterr().err == (
        "shardfeed: --image_size: array_batches neither cuts nor resizes. Use --reader tensorflow.\n"
    )


def test_without_tensorflow_the_command_names_the_extra_and_the_other_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path)
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from shardfeed.cli.main import main\n"
        "sys.exit(main(['benchmark', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "shardfeed: shardfeed.load needs tensorflow, which is not installed here: pip install 'shardfeed[tf]'. "
        "Without TensorFlow, measure the NumPy reader: --reader arrays\n",
    )


def test_the_command_needs_neither_beam_nor_pillow(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    code = (
        "import sys\n"
        "from shardfeed.cli.main import main\n"
        "main(['benchmark', sys.argv[1], '--reader', 'arrays', '--batch_size', '8', '--seconds', '0.01'])\n"
        "print([name for name in ('apache_beam', 'PIL', 'tensorflow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(("address", "expected"), [("gs://bucket/flowers", "2"), ("/flowers", "None")])
def test_the_command_reads_from_a_bucket_in_pieces_of_2_mib(address: str, expected: str) -> None:
    code = (
        "import os, sys, shardfeed.benchmarking.stream\n"
        "from shardfeed.cli.main import main\n"
        "shardfeed.benchmarking.stream.benchmark_reader = lambda *_, **__: os.environ.get('GCS_READ_CACHE_BLOCK_SIZE_MB')\n"
        "sys.exit(main(['benchmark', sys.argv[1]]))"
    )
    env = {name: value for name, value in os.environ.items() if name != "GCS_READ_CACHE_BLOCK_SIZE_MB"}
    done = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, env=env)

    assert (done.stdout, done.stderr) == (f"{expected}\n", "")
