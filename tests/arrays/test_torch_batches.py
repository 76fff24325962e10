"""``torch_batches`` on a stand-in for torch, which is too large for the tests.

The stand-in has the few names that are used, and marks the memory that stands for pinned one. What
the real PyTorch does with it was run by hand (docs/how-to/pytorch.md).
"""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.testing import make_dataset
from tests.arrays.test_map import shifted
from tests.kit.datasets import write_dataset


class Tensor:
    """An array behind the methods of a tensor that are used."""

    def __init__(self, array: Any, pinned: bool = False) -> None:
        self.array, self.pinned, self.dtype = array, pinned, array.dtype

    def numpy(self) -> Any:
        return Numpy(self)

    def long(self) -> Tensor:
        return Tensor(self.array.astype(np.int64))

    def is_pinned(self) -> bool:
        return self.pinned

    def pin_memory(self) -> Tensor:
        return Tensor(self.array.copy(), pinned=True)

    def permute(self, *axes: int) -> Tensor:
        return Tensor(self.array.transpose(axes), self.pinned)


def from_numpy(array: Any) -> Tensor:
    """Refuses what PyTorch refuses: texts, and an array that is read backwards."""
    if array.dtype.kind not in "biufc":
        raise TypeError(f"can't convert np.ndarray of type {array.dtype.type}")
    if any(stride < 0 for stride in array.strides):
        raise ValueError("At least one stride in the given numpy array is negative")
    return Tensor(array)


def Numpy(tensor: Tensor) -> Any:
    """An array whose base is the tensor, as PyTorch gives it."""
    tensor.__array_interface__ = tensor.array.__array_interface__  # type: ignore[attr-defined]
    return np.asarray(tensor)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset")).path


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in, in the place of PyTorch; ``torch.cuda.found`` says whether there is a GPU."""
    modules = [ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.data", "torch.cuda")]
    torch, utils, data, cuda = (one.__dict__ for one in modules)
    torch.update(utils=modules[1], cuda=modules[3], Tensor=Tensor, from_numpy=from_numpy)
    torch["empty"] = lambda shape, dtype, pin_memory: Tensor(np.empty(shape, dtype), pinned=pin_memory)
    utils.update(data=modules[2])
    data.update(IterableDataset=type("IterableDataset", (), {}), get_worker_info=lambda: None)
    cuda.update(found=True, is_available=lambda: cuda["found"])
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "shardfeed.arrays.torch_batches", raising=False)
    yield modules[0]
    for name in ("torch_batches", "TorchBatches"):
        shardfeed.__dict__.pop(name, None)
    sys.modules.pop("shardfeed.arrays.torch_batches", None)


OPTIONS: dict[str, Any] = {"crop": "random_resized", "image_size": (6, 9), "map": shifted}


@pytest.mark.parametrize("pin_memory", [False, True])
def test_a_batch_is_that_of_array_batches_with_channels_first(folder: Path, torch: Any, pin_memory: bool) -> None:
    expected = list(islice(shardfeed.array_batches(folder, "train", 9, **OPTIONS), 5))

    found = list(islice(shardfeed.torch_batches(folder, "train", 9, pin_memory=pin_memory, **OPTIONS), 5))

    for (x, y), (images, labels) in zip(found, expected, strict=True):
        assert np.array_equal(x.array, images.transpose(0, 3, 1, 2)) and np.array_equal(y.array, labels)
        assert (x.dtype, y.dtype) == (np.uint8, np.int64)
        assert x.pinned == y.pinned == pin_memory


@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["as stored", "cut and mapped"])
def test_images_are_decoded_into_the_pinned_memory(
    folder: Path, torch: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    copies: list[tuple[int, ...]] = []
    pinned = Tensor.pin_memory

    def copy(one: Tensor) -> Tensor:
        copies.append(one.array.shape)
        return pinned(one)

    monkeypatch.setattr(Tensor, "pin_memory", copy)

    x, y = next(iter(shardfeed.torch_batches(folder, "train", 9, pin_memory=True, **options)))

    assert x.pinned and y.pinned and copies == [(9,)]  # the labels


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_evaluation_and_dicts_have_the_same_columns(folder: Path, torch: Any) -> None:
    expected = list(shardfeed.array_batches(folder, "validation", 6, as_dict=True, label="onehot"))

    batches = shardfeed.torch_batches(folder, "validation", 6, as_dict=True, label="onehot", pin_memory=True)

    found = list(batches)
    assert len(batches) == len(found) == 2
    for one, other in zip(found, expected, strict=True):
        assert one.pop("key") == other.pop("key").tolist()
        assert np.array_equal(one.pop("image").array, other.pop("image").transpose(0, 3, 1, 2))
        assert list(one) == list(other) == ["label", "size", "weight"]
        assert all(np.array_equal(one[name].array, values) and one[name].pinned for name, values in other.items())


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize("label_kind", ["multi", "none"])
def test_several_labels_are_floats_and_without_labels_there_is_x_alone(
    tmp_path: Path, torch: Any, label_kind: str
) -> None:
    info = make_dataset(tmp_path, {"train": 12, "validation": 5}, label_kind=label_kind)
    for split in info.splits:
        expected = islice(shardfeed.array_batches(info, split, 4), 2)
        for one, other in zip(islice(shardfeed.torch_batches(info, split, 4), 2), expected, strict=True):
            tensors, arrays = ((batch,) if label_kind == "none" else batch for batch in (one, other))
            assert np.array_equal(tensors[0].array, arrays[0].transpose(0, 3, 1, 2))
            for tensor, array in zip(tensors[1:], arrays[1:], strict=True):
                assert tensor.dtype == np.float32 and np.array_equal(tensor.array, array)
        named = next(iter(shardfeed.torch_batches(info, split, 4, as_dict=True)))
        assert ("label" in named, type(named["key"])) == (label_kind == "multi", list)


def test_what_map_batches_returns_becomes_tensors(folder: Path, torch: Any) -> None:

    def halves(batch: Any, seed: int) -> Any:
        images, labels = batch
        return [images[:, ::2] / 2, labels, "a text"]

    def flipped(batch: Any, seed: int) -> Any:
        return batch[0][:, :, ::-1], batch[1]

    x, y, text = next(iter(shardfeed.torch_batches(folder, "train", 9, map_batches=halves)))
    only = next(iter(shardfeed.torch_batches(folder, "train", 9, map_batches=lambda batch, seed: batch[0])))

    assert (x.array.shape, x.dtype, y.dtype, text) == ((9, 3, 4, 12), np.float64, np.int64, "a text")
    assert only.array.shape == (9, 3, 8, 12)
    back, _ = next(iter(shardfeed.torch_batches(folder, "train", 9, map_batches=flipped)))
    assert np.array_equal(back.array, only.array[:, :, :, ::-1])


def test_a_state_resumes_the_stream_and_travels(folder: Path, torch: Any) -> None:
    batches = shardfeed.torch_batches(folder, "train", 9, **OPTIONS)
    reading = iter(batches)
    next(reading)
    state = batches.state_dict()
    (expected, _) = next(reading)

    batches.load_state_dict(state)
    travelled = pickle.loads(pickle.dumps(batches))

    assert state == shardfeed.array_batches(folder, "train", 9, start_step=1).state_dict()
    for one in (batches, travelled):
        assert np.array_equal(next(iter(one))[0].array, expected.array)


def test_the_threads_end_where_the_stream_is_left(folder: Path, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = shardfeed.torch_batches(folder, "train", 9)
    closed: list[bool] = []
    real = batches._arrays.reading

    def reading(empty: Any) -> Any:
        try:
            yield from real(empty)
        finally:
            closed.append(True)

    monkeypatch.setattr(batches._arrays, "reading", reading)
    stream = iter(batches)
    next(stream)
    stream.close()  # type: ignore[attr-defined]

    assert closed == [True]


def test_it_says_what_it_is(folder: Path, torch: Any) -> None:
    batches = shardfeed.torch_batches(folder, "train", 9)

    assert repr(batches) == f"TorchBatches(endless batches of 9 from train of {folder})"
    assert batches and batches.image_shape == (8, 12, 3)
    with pytest.raises(TypeError, match="has no end and no length"):
        len(batches)


def test_pinned_memory_needs_a_gpu(folder: Path, torch: Any) -> None:
    torch.cuda.found = False

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.torch_batches(folder, "train", 9, pin_memory=True)

    assert str(found.value) == (
        "pin_memory=True: PyTorch finds no GPU here. Leave pin_memory out, or pass pin_memory=torch.cuda.is_available()."
    )


def test_without_pytorch_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("sys.path", [path for path in sys.path if not (Path(path) / "torch").exists()])
    importlib.invalidate_caches()

    with pytest.raises(ImportError) as found:
        shardfeed.torch_batches  # noqa: B018

    assert str(found.value) == "shardfeed.torch_batches needs torch, which is not installed here: pip install torch"


def test_its_arguments_are_those_of_array_batches(torch: Any) -> None:
    ours, theirs = (inspect.signature(one).parameters for one in (shardfeed.torch_batches, shardfeed.array_batches))

    assert [*ours] == [*theirs, "pin_memory"]
    assert all(ours[name].default == one.default and ours[name].kind == one.kind for name, one in theirs.items())


def nested(batch: Any, seed: int) -> Any:
    x, y = batch
    return {"views": [x, {"half": x[:, ::2]}], "names": np.array(["a", "b"]), "target": (y, 0.5)}


def test_arrays_deep_in_what_map_batches_makes_become_tensors(torch: Any, folder: Path) -> None:
    options: dict[str, Any] = {"training": True, "epochs": 1}
    x, y = next(iter(shardfeed.array_batches(folder, "train", 6, **options)))

    found = next(iter(shardfeed.torch_batches(folder, "train", 6, map_batches=nested, **options)))

    whole, half = found["views"][0], found["views"][1]["half"]
    assert np.array_equal(whole.array, x.transpose(0, 3, 1, 2))
    assert np.array_equal(half.array, x[:, ::2].transpose(0, 3, 1, 2))
    assert found["names"] == ["a", "b"] and found["target"][1] == 0.5
    assert found["target"][0].dtype == np.int64 and found["target"][0].array.tolist() == y.tolist()
