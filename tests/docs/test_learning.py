"""The models of the pages learn pictures that a model this small can tell apart."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from shardfeed.cli.main import main
from tests.docs.pages import ROOT, run_python

EVALUATE = """
found = model.evaluate(shardfeed.load(info, "validation", 32), verbose=0, return_dict=True)
print("accuracy", found["accuracy"])
"""
README = ("README.md", "", {"128": "32"})
TRAIN = ("docs/how-to/train.md", "", {"epochs=2": "epochs=10"})
ON_JAX = ("docs/how-to/train.md", "<!-- process: keras-jax -->\n", {"epochs=1": "epochs=10"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dataset ``out``: scikit-learn's 1,797 digits, drawn and built."""
    folder, digits = tmp_path_factory.mktemp("digits"), load_digits()
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        path = folder / "photos" / str(digit) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC).save(path)
    flags = ["--image_size", "32", "--splits", "train=0.9,validation=0.1"]
    assert main(["build", "--input", str(folder / "photos"), "--output", str(folder / "out"), *flags]) == 0
    return folder


def program(page: str, marker: str, changes: dict[str, str]) -> str:
    """The first block after ``marker``, changed, and an evaluation of its model."""
    block = re.search(f"{marker}```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert block
    code = block[1]
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    return f"import keras\nkeras.utils.set_random_seed(1)\n{code}{EVALUATE}"


@pytest.mark.parametrize(
    ("backend", "pages"),
    [("tensorflow", [README, TRAIN]), ("jax", [ON_JAX])],
    ids=["README and train", "train, on JAX"],
)
def test_the_models_of_the_pages_learn_digits(
    folder: Path, backend: str, pages: list[tuple[str, str, dict[str, str]]]
) -> None:
    done = run_python("\n".join(program(*page) for page in pages), folder, KERAS_BACKEND=backend)

    assert done.returncode == 0, done.stderr
    accuracies = [float(found) for found in re.findall(r"^accuracy (\S+)$", done.stdout, re.MULTILINE)]
    assert len(accuracies) == len(pages) and min(accuracies) > 0.9
