"""The examples without TensorFlow.

JAX trains for real; PyTorch's is run by hand, and here only its network is looked at. What it reads by
has tests of its own (``test_torch_batches.py``).
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.kit.datasets import write_dataset

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_jax_example_learns_and_evaluates_without_tensorflow(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 60, "validation": 10})
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); sys.modules['tensorflow'] = None\n"
        "import train_jax; train_jax.main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "--epochs=20", "--batch_size=20", "--rate=0.1"]

    quick = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}  # compiles faster
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | quick)

    assert done.returncode == 0, done.stderr
    *steps, train, validation = done.stdout.splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in steps]
    assert [line.partition(" loss")[0] for line in steps] == [
        f"{step}/60 [{'=' * (step // 2)}{'.' * (30 - step // 2)}]" for step in (20, 40, 60)
    ]
    assert all(np.isfinite(losses)) and losses[-1] < np.log(3)
    assert train.startswith("accuracy on train: 0.") or train == "accuracy on train: 1.0000"
    assert validation.startswith("accuracy on validation: ")


@pytest.mark.parametrize(
    ("example", "library", "needs"),
    [
        ("train_jax", "jax", "JAX, which is not installed here: pip install 'jax[cpu]' (or jax[cuda12], jax[tpu])"),
        ("train_torch", "torch", "PyTorch, which is not installed here: pip install torch"),
    ],
)
def test_an_example_without_its_library_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, example: str, library: str, needs: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")

    assert left.value.code == f"{example}.py needs {needs}"


@pytest.fixture
def train_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, with ``torch`` standing in for PyTorch."""
    torch, nn = map(ModuleType, ("torch", "torch.nn"))
    torch.no_grad = lambda: lambda function: function  # type: ignore[attr-defined]
    torch.nn = nn  # type: ignore[attr-defined]
    for module in (torch, nn):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("train_torch", EXAMPLES / "train_torch.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("size", [(64, 64), (28, 33), (1, 224)], ids=str)
def test_the_last_layer_of_the_torch_network_takes_what_its_convolutions_leave(
    train_torch: Any, size: tuple[int, int]
) -> None:
    """PyTorch's formula for a convolution with a kernel of 3, a stride of 2 and a padding of 1."""
    for name in ("Conv2d", "ReLU", "Flatten", "Linear", "Sequential"):
        setattr(train_torch.nn, name, lambda *given, name=name, **options: (name, *given))

    *convolutions, _, last = train_torch.network(*size, 3, 10)[1:]

    height, width = size
    for _ in range(4):
        height, width = ((side + 2 - 3) // 2 + 1 for side in (height, width))
    assert [layer for layer in convolutions if layer[0] == "Conv2d"] == [
        ("Conv2d", *channels, 3) for channels in ((3, 16), (16, 32), (32, 64), (64, 64))
    ]
    assert last == ("Linear", 64 * height * width, 10)
