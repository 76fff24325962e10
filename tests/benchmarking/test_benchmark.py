"""The measuring itself, on tiny datasets: every figure is taken, whatever is measured. Nothing here looks at a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from pipeline.cli import main
from tests.datasets import write_dataset


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
    assert found.decode_limit and found.read_limit > 0 and found.first_batch_seconds > 0
    assert (found.batch_size, found.needed, found.remote) == (8, 2000, False)


@pytest.mark.parametrize("reader", ["load", "array_batches"])
def test_a_stream_that_ends_is_started_again(tmp_path: Path, reader: str) -> None:
    write_dataset(tmp_path)

    batches = getattr(shardfeed, reader)(tmp_path, "validation", 5)

    assert shardfeed.benchmark(batches, tmp_path, "validation", seconds=0.2).images_per_second > 0


def test_batches_may_be_dicts(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = [{"image": x, "label": y} for x, y in shardfeed.array_batches(tmp_path, "train", 4, epochs=1)]

    assert shardfeed.benchmark(batches, tmp_path, seconds=0.01).batch_size == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds=0: expected a number above 0."),
        ({"step_ms": "22"}, "step_ms='22': expected a number above 0."),
        ({"split": "test"}, "split 'test' is not in the dataset"),
        ({"batches": []}, "there are no batches to measure: expected what load or array_batches gives."),
    ],
    ids=["no seconds", "a step of text", "an unknown split", "no batches"],
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
    assert lines[-1].startswith("Bottleneck: ")


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


def test_without_tensorflow_the_command_names_the_extra_and_the_other_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path)
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from pipeline.cli import main\n"
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
        "from pipeline.cli import main\n"
        "main(['benchmark', sys.argv[1], '--reader', 'arrays', '--batch_size', '8', '--seconds', '0.01'])\n"
        "print([name for name in ('apache_beam', 'PIL', 'tensorflow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n[]\n")
