"""The examples without TensorFlow.

JAX trains for real; of PyTorch's only the reading half runs, on a stand-in for torch.
"""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardfeed
from tests.kit.datasets import write_dataset
from tests.reader.streams import numbers

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_jax_example_learns_and_evaluates_without_tensorflow(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 60, "validation": 10})
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); sys.modules['tensorflow'] = None\n"
        "import train_jax; train_jax.main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "--epochs=20", "--batch_size=20", "--rate=0.1"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    *steps, train, validation = done.stdout.splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in steps]
    assert [line.partition(" loss")[0] for line in steps] == [
        f"20/60 [{'=' * 10}{'.' * 20}]",
        f"40/60 [{'=' * 20}{'.' * 10}]",
        f"60/60 [{'=' * 30}]",
    ]
    assert all(np.isfinite(losses)) and losses[-1] < np.log(3)
    assert train.startswith("accuracy on train: 0.") or train == "accuracy on train: 1.0000"
    assert validation.startswith("accuracy on validation: ")


@pytest.mark.parametrize(
    ("example", "library", "remedy"),
    [
        (
            "train_jax",
            "jax",
            "needs JAX, which is not installed here: pip install 'jax[cpu]' (or jax[cuda12], jax[tpu])",
        ),
        ("train_torch", "torch", "needs PyTorch, which is not installed here: pip install torch"),
    ],
)
def test_an_example_without_its_library_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, example: str, library: str, remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")

    assert left.value.code == f"{example}.py {remedy}"


class StandInDataset:
    """All of torch's IterableDataset that the example uses."""


class StandInTensor(np.ndarray):
    """An array with the two methods of a tensor that the example calls while it reads."""

    def permute(self, *axes: int) -> Any:
        return self.transpose(axes)

    def long(self) -> Any:
        return self.astype(np.int64)


@pytest.fixture
def train_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, with ``torch`` standing in for PyTorch, which answers what is in
    ``found``.
    """
    names = ("torch", "torch.nn", "torch.utils", "torch.utils.data", "torch.distributed")
    torch, nn, utils, data, distributed = map(ModuleType, names)
    found: dict[str, Any] = {"worker": None, "rank": 0, "world": 1}
    distributed.is_available = distributed.is_initialized = lambda: True  # type: ignore[attr-defined]
    distributed.get_rank = lambda: found["rank"]  # type: ignore[attr-defined]
    distributed.get_world_size = lambda: found["world"]  # type: ignore[attr-defined]
    torch.from_numpy = lambda array: array.view(StandInTensor)  # type: ignore[attr-defined]
    torch.no_grad = lambda: lambda function: function  # type: ignore[attr-defined]
    torch.nn, torch.utils = nn, utils  # type: ignore[attr-defined]
    data.IterableDataset, data.DataLoader = StandInDataset, None  # type: ignore[attr-defined]
    data.get_worker_info = lambda: found["worker"]  # type: ignore[attr-defined]
    for module in (torch, nn, utils, data, distributed):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("train_torch", EXAMPLES / "train_torch.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.found = found  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("world", [1, 2])
def test_the_torch_dataset_gives_each_process_its_share_in_torchs_layout(
    tmp_path: Path, train_torch: Any, world: int
) -> None:
    written = write_dataset(tmp_path, image_format="raw", splits={"train": 36})
    info = shardfeed.info(tmp_path)
    seen = []
    for rank in range(world):
        train_torch.found.update(rank=rank, world=world)
        batches = train_torch.Batches(info, "train", 6, epochs=1)
        found = list(batches)
        assert len(batches) == len(found) == 6
        assert found[0][0].shape == (6 // world, 3, 8, 12) and found[0][1].dtype == np.int64
        seen += numbers([(np.asarray(x).transpose(0, 2, 3, 1), np.asarray(y)) for x, y in found], written, "train")

    assert sorted(seen) == list(range(36))


def test_the_torch_dataset_resumes_and_gives_weights_in_evaluation(tmp_path: Path, train_torch: Any) -> None:
    info = shardfeed.info(write_dataset(tmp_path).path)
    whole = list(train_torch.Batches(info, "train", 9, epochs=1))
    rest = list(train_torch.Batches(info, "train", 9, epochs=1, start_step=2))

    assert len(rest) == 2 and all(np.array_equal(a[0], b[0]) for a, b in zip(whole[2:], rest, strict=True))
    assert [len(batch) for batch in train_torch.Batches(info, "validation", 5)] == [3, 3]


def test_the_torch_dataset_refuses_worker_processes(tmp_path: Path, train_torch: Any) -> None:
    info = shardfeed.info(write_dataset(tmp_path).path)
    batches = train_torch.Batches(info, "train", 9)
    train_torch.found["worker"] = object()

    with pytest.raises(RuntimeError, match=r"num_workers=0\): threads use all cores already$"):
        next(iter(batches))


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
