"""The measuring itself, on tiny datasets: every figure is taken. No figure is judged."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.cli.main import main
from tests.kit.commands import write_photos
from tests.kit.datasets import write_dataset

NUMBER = "expected a number above 0 and below 1e12."


@pytest.mark.parametrize(("reader", "image_format"), [("load", "jpeg"), ("array_batches", "raw")])
def test_every_figure_is_measured(tmp_path: Path, reader: str, image_format: str) -> None:
    write_dataset(tmp_path, image_format=image_format)
    info = shardfeed.info(tmp_path)

    found = shardfeed.benchmark(getattr(shardfeed, reader)(info, "train", 8), info, seconds=0.05, step_ms=4)

    stored = found.images_per_second * info.splits["train"].bytes / 37 / 1e6
    assert found.images_per_second > 0 and found.per_core == found.images_per_second / found.cores
    assert found.megabytes_per_second == pytest.approx(stored, 1e-9)
    assert found.decode_limit and found.read_limit and found.first_batch_seconds > 0
    assert (found.batch_size, found.needed, found.remote) == (8, 2000, False)


def test_datasets_without_labels_are_measured_too(tmp_path: Path) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=8), tmp_path / "out"
    assert (
        main(["build", "--input", str(photos), "--output", str(out), "--label_from", "none", "--image_size", "16"]) == 0
    )
    info = shardfeed.info(out)

    found = shardfeed.benchmark(shardfeed.load(info, "train", 4), info, seconds=0.05)

    assert found.images_per_second > 0 and found.decode_limit


def test_a_stream_that_ends_is_started_again(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    readings = 0

    class Counted:
        def __iter__(self) -> Any:
            nonlocal readings
            readings += 1
            return iter(batches)

    batches = shardfeed.array_batches(tmp_path, "validation", 5)

    assert shardfeed.benchmark(Counted(), tmp_path, "validation", seconds=0.2).images_per_second > 0
    assert readings > 1


def test_an_iterator_is_measured_to_its_end(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = shardfeed.array_batches(tmp_path, "train", 8)

    found = shardfeed.benchmark(itertools.islice(batches, 3), tmp_path, seconds=0.3)

    assert found.batch_size == 8 and found.images_per_second > 0


def test_a_stream_of_one_batch_cannot_be_measured(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = shardfeed.array_batches(tmp_path, "train", 37, epochs=1)

    for stream in (batches, iter(batches)):
        with pytest.raises(shardfeed.UsageError, match="ends after 1 batch, so its speed cannot be measured"):
            shardfeed.benchmark(stream, tmp_path, seconds=0.01)


@pytest.mark.parametrize(
    ("reader", "options"),
    [("load", {"image_size": 6, "crop": "random_resized"}), ("array_batches", {"image_size": 6})],
    ids=str,
)
def test_the_decoding_limit_crops_and_resizes_as_the_reader_does(
    tmp_path: Path, reader: str, options: dict[str, Any]
) -> None:
    write_dataset(tmp_path, size=None)
    batches = getattr(shardfeed, reader)(tmp_path, "train", 8, **options)

    assert shardfeed.benchmark(batches, tmp_path, seconds=0.05, **options).decode_limit
    assert shardfeed.benchmark(batches, tmp_path, seconds=0.05).decode_limit is None


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = shardfeed.array_batches(tmp_path, "train", 8)

    assert shardfeed.benchmark(batches, tmp_path, seconds=np.float32(0.01), step_ms=np.int64(4)).needed == 2000


def test_batches_may_be_dicts_or_images_alone(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = list(shardfeed.array_batches(tmp_path, "train", 4, epochs=1))

    for made in ([{"image": x, "label": y} for x, y in batches], [x for x, _ in batches]):
        assert shardfeed.benchmark(made, tmp_path, seconds=0.01).batch_size == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, f"seconds=0: {NUMBER}"),
        ({"seconds": True}, f"seconds=True: {NUMBER}"),
        ({"seconds": None}, f"seconds=None: {NUMBER}"),
        ({"seconds": float("inf")}, f"seconds=inf: {NUMBER}"),
        ({"seconds": 10**400}, f"seconds=1{'0' * 198}…: {NUMBER}"),
        ({"step_ms": "22"}, f"step_ms='22': {NUMBER}"),
        ({"image_size": 0}, "image_size=0: expected an integer of at least 1."),
        ({"split": "test"}, "split 'test' is not in the dataset"),
        ({"batches": []}, "there are no batches to measure: expected what load or array_batches gives"),
        ({"batches": [1, 2]}, "a batch is int, whose images cannot be counted: expected what load or array_batches"),
        ({"batches": [()]}, "a batch is tuple, whose images cannot be counted"),
        ({"batches": 5}, "batches=5: expected what load or array_batches gives"),
        ({"dataset": 3}, "the dataset is 3: expected what shardfeed.info gave, its folder or gs://bucket/folder."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_arguments_that_cannot_be(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_dataset(tmp_path)
    batches = shardfeed.array_batches(tmp_path, "train", 8)

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.benchmark(**{"batches": batches, "dataset": tmp_path, "seconds": 0.01, **options})

    assert message in str(found.value)


def test_the_command_prints_the_figures_and_the_verdict_of_this_process_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "3")  # as below torchrun

    code = main(["benchmark", str(tmp_path), "--batch_size", "8", "--seconds", "0.05"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    figures = ["input", "first batch", "decoding alone", "reading alone"]
    assert [line[:15].rstrip() for line in lines[:4]] == figures
    # Which verdict is true depends on the machine.
    assert lines[-1].startswith(("Bottleneck: ", "Doubtful: "))


def test_the_command_gives_json_of_another_split_and_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path, size=None)
    flags = ["--image_size=6x4", "--crop=center", "--batch_size=5", "--step_ms=1e9", "--seconds=0.05", "--json"]

    code = main(["benchmark", str(tmp_path), "validation", "--reader=arrays", *flags])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["batch_size"], found["fast_enough"], found["bottleneck"]) == (0, 5, True, "consumer")
    assert found["decode_limit"] > 0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--seconds=0", f"seconds=0.0: {NUMBER}"),
        ("--step_ms=-1", f"step_ms=-1.0: {NUMBER}"),
        ("--batch_size=0", "batch_size=0: expected an integer of at least 1."),
        ("--image_size=0", "image_size"),
        ("split", "split 'split' is not in the dataset"),
        (
            "--seconds=1",
            "shardfeed.load needs tensorflow, which is not installed here: pip install 'shardfeed[tf]'. "
            "Without TensorFlow, measure the NumPy reader: --reader arrays\n",
        ),
    ],
)
def test_the_command_checks_its_arguments_before_it_imports_tensorflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: str, message: str
) -> None:
    write_dataset(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.delitem(sys.modules, "shardfeed.tfdata.load", raising=False)
    monkeypatch.delattr(shardfeed, "load", raising=False)

    assert main(["benchmark", str(tmp_path), *flag.split()]) == 2
    assert message in capsys.readouterr().err


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
