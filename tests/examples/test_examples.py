"""Each example from an empty folder to an accuracy, as a user runs it; small data, few steps."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from tests.kit.builder import Ended
from tests.kit.builds import run_program

ROOT = Path(shardfeed.__file__).parents[1]
EXAMPLES = ("estimator_style.py", "train_cifar10.py", "train_flowers.py", "train_mnist.py")
SMALL = ("--image_size", 16, "--batch_size", 16, "--epochs", 3, "--learning_rate", 0.01)


def run_on_jax(example: str, *arguments: object, cwd: Path) -> Ended:
    """``example`` in a process of its own."""
    return run_program(ROOT / "examples" / example, *arguments, backend="jax", folder=cwd)


def run_here(monkeypatch: pytest.MonkeyPatch, example: str, *arguments: object) -> object:
    """Exit code of ``example`` in this process, which has imported TensorFlow already."""
    monkeypatch.setattr(sys, "argv", [example, *map(str, arguments)])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    try:
        runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
    except SystemExit as left:
        return left.code
    return 0


def accuracy(said: str) -> float:
    """Of the last line."""
    found = re.fullmatch(r"(test|validation): accuracy (\d\.\d{3}), loss \d+\.\d{3}", said.splitlines()[-1])
    assert found, said
    return float(found[2])


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of three flowers that differ in colour: blue, red and yellow blots on green."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    colours = {"cornflower": (60, 70, 220), "poppy": (220, 40, 40), "sunflower": (240, 200, 30)}
    for name, colour in colours.items():
        (folder / name).mkdir()
        for number in range(60):
            pixels = random.normal((60, 120, 50), 25, (64, 48, 3))
            y, x = random.integers(8, 24, 2)
            pixels[y : y + 24, x : x + 20] = random.normal(colour, 25, (24, 20, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name / f"{number}.jpg")
    return folder


@pytest.fixture(scope="module")
def flowers(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The dataset that train_flowers.py built, and what it said, on JAX and in mixed precision."""
    folder = tmp_path_factory.mktemp("flowers")
    done = run_on_jax("train_flowers.py", "--input", photos, *SMALL, "--mixed_precision", cwd=folder)
    assert done.code == 0, done.out + done.err
    return folder / "flowers-dataset", done.out


@pytest.mark.parametrize("example", EXAMPLES)
def test_help_says_what_it_shows(
    example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = (ROOT / "examples" / example).read_text().splitlines()[0].removeprefix('"""')

    assert run_here(monkeypatch, example, "--help") == 0
    assert first in capsys.readouterr().out


def test_photos_become_a_classifier_on_jax_in_mixed_precision(flowers: tuple[Path, str]) -> None:
    dataset, said = flowers

    assert shardfeed.info(dataset).classes == ("cornflower", "poppy", "sunflower")
    assert "CPU, 1 replica. JAX " in said
    assert accuracy(said) >= 0.9


def test_the_same_script_trains_on_tensorflow(
    flowers: tuple[Path, str], photos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run_here(monkeypatch, "train_flowers.py", "--input", photos, "--dataset", flowers[0], *SMALL)

    said = capfd.readouterr().out
    assert code == 0 and "CPU, 1 replica. TensorFlow " in said
    assert accuracy(said) >= 0.9


@pytest.mark.parametrize(
    ("given", "policy"),
    [([], "float32"), (["--mixed_precision"], "bfloat16"), (["--mixed_precision", "float16"], "float16")],
    ids=["absent", "as a flag", "by name"],
)
def test_mixed_precision_is_a_flag_or_a_name(monkeypatch: pytest.MonkeyPatch, given: list[str], policy: str) -> None:
    monkeypatch.setattr(sys, "argv", ["train_flowers.py", *given])

    arguments = runpy.run_path(str(ROOT / "examples" / "train_flowers.py"))["arguments"]

    assert arguments().mixed_precision == policy


def test_a_plain_loop_over_input_fn_learns_and_evaluates(
    flowers: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run_here(
        monkeypatch, "estimator_style.py", flowers[0], "--train_steps", 60, "--learning_rate", 0.005,
        "--train_batch_size", 16, "--eval_batch_size", 10,
    )  # fmt: skip

    said = capfd.readouterr().out
    assert code == 0 and "Epoch 3/3" in said and "loss: " in said
    assert accuracy(said) >= 0.9


def test_digits_are_learnt_alike_by_fit_by_a_loop_and_by_several_steps_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for mode in ("fit", "custom", "steps"):
        assert run_here(monkeypatch, "train_mnist.py", "--mode", mode, "--epochs", 2, "--steps", 23) == 0
        found[mode] = accuracy(capfd.readouterr().out)

    assert min(found.values()) >= 0.8
    assert max(found.values()) - min(found.values()) < 0.02  # the same records in the same order


def test_a_loop_of_tensorflow_is_refused_on_jax_before_anything_is_built(tmp_path: Path) -> None:
    done = run_on_jax("train_mnist.py", "--mode", "custom", cwd=tmp_path)

    assert (done.code, done.err.splitlines()[-1]) == (
        1,
        "--mode custom needs KERAS_BACKEND=tensorflow; on jax use --mode fit",
    )
    assert list(tmp_path.iterdir()) == []


def test_patterns_of_cifar_size_are_learnt_from_raw_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_here(monkeypatch, "train_cifar10.py", "--images", 300, "--epochs", 6, "--batch_size", 32) == 0
    assert shardfeed.info(tmp_path / "cifar10-dataset").manifest.image.format == "raw"
    assert accuracy(capfd.readouterr().out) >= 0.8


def test_a_failed_build_ends_the_example_with_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = run_here(monkeypatch, "train_flowers.py", "--input", tmp_path / "nothing", "--dataset", tmp_path / "dataset")

    assert code == 2
