"""``torch_batches``: the stream of ``array_batches`` as PyTorch's tensors.

A batch is decoded into the memory that its tensor has: ordinary memory, or memory that the driver
has pinned. Channels come first by a change of strides (PyTorch's ``channels_last``), which moves
no byte. Labels are converted to int64, which PyTorch's losses want.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset

from shardfeed.arguments import flag
from shardfeed.arrays.batches import ArrayBatches, array_batches
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import UsageError


class TorchBatches(IterableDataset):  # type: ignore[misc]
    """What ``torch_batches`` gives: an ``IterableDataset`` of whole batches.

    ``DataLoader(batches, batch_size=None)`` takes it, with ``num_workers=0``; a loop and
    Lightning's ``Trainer`` take it as it is. ``len`` is the number of batches if the stream ends.
    """

    def __init__(self, arrays: ArrayBatches, *, pin_memory: bool) -> None:
        self._arrays, self._pin = arrays, pin_memory
        self.image_shape = arrays.image_shape

    def __repr__(self) -> str:
        return repr(self._arrays).replace("ArrayBatches", "TorchBatches", 1)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[Any]:
        return self._converted(self._arrays.reading(self._pinned if self._pin else np.empty))

    def state_dict(self) -> dict[str, Any]:
        """As ``ArrayBatches.state_dict``."""
        return self._arrays.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As ``ArrayBatches.load_state_dict``."""
        self._arrays.load_state_dict(state)

    def _converted(self, reading: Generator[Any, None, None]) -> Generator[Any, None, None]:
        with closing(reading):
            for batch in reading:
                yield self._tensors(batch)

    def _pinned(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        found: NDArray[Any] = torch.empty(shape, dtype=kind, pin_memory=True).numpy()
        return found

    def _tensors(self, batch: Any) -> Any:
        """``batch`` with tensors for its arrays, however deep; of keys and texts, lists."""
        if isinstance(batch, dict):
            return {name: self._tensors(values) for name, values in batch.items()}
        if isinstance(batch, (tuple, list)):
            made = [self._tensors(values) for values in batch]
            return batch._make(made) if hasattr(batch, "_make") else type(batch)(made)  # a named tuple
        return self._tensor(batch)

    def _tensor(self, values: Any) -> Any:
        if not isinstance(values, np.ndarray):  # map_batches made it
            return values
        if values.dtype.kind in "OSU":  # of which PyTorch has no tensors
            return values.tolist()
        if any(stride < 0 for stride in values.strides):  # flipped by a slice, which PyTorch refuses
            values = values.copy()
        tensor = values.base if isinstance(values.base, torch.Tensor) else torch.from_numpy(values)
        if values.dtype == np.int32:
            tensor = tensor.long()
        if self._pin and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        return tensor.permute(0, 3, 1, 2) if values.ndim == 4 else tensor


def torch_batches(
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str,
    batch_size: int,
    *,
    training: bool | None = None,
    epochs: int | None = None,
    seed: int = 0,
    host: tuple[int, int] | str | None = None,
    start_step: int = 0,
    shuffle_buffer: int | str = "128MB",
    image_size: int | tuple[int, int] | None = None,
    crop: str | None = None,
    label: str = "int",
    as_dict: bool = False,
    columns: Sequence[str] | None = None,
    max_len: int | Mapping[str, int] | None = None,
    map: Callable[[NDArray[np.uint8], int], Any] | None = None,
    map_batches: Callable[[Any, int], Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    eval_remainder: str = "pad",
    threads: int | None = None,
    pin_memory: bool = False,
) -> TorchBatches:
    """The batches of ``array_batches`` as PyTorch's tensors, channels first.

    Training: ``(x, y)``. ``x`` is uint8[b, channels, height, width] in the memory format
    ``channels_last``; ``y`` is int64[b]. Evaluation: ``(x, y, w)``, ``w`` float32[b]. With
    ``as_dict``, ``key`` is a list of bytes, and the rest are tensors.

        for x, y in shardfeed.torch_batches(info, "train", 256, pin_memory=True):
            x = x.cuda(non_blocking=True).float() / 255

    ``map`` and ``map_batches`` work on NumPy arrays, channels last; their results become tensors.
    An array with four axes is taken for images: its last axis becomes the second. int32 becomes
    int64.

    Args:
        dataset: This and what follows, up to ``threads``: as in ``array_batches``.
        split: Name of the split.
        batch_size: Records per batch over all hosts.
        training: True or False chooses the form.
        epochs: Training: end after this many passes.
        seed: Training: seed of the order and of random crops.
        host: (index, count); None or "auto" asks the process group.
        start_step: Training: begin with this batch.
        shuffle_buffer: Training: bytes shuffled together.
        image_size: Height and width of ``x``.
        crop: None, "center" or "random_resized".
        label: "int", or "onehot" for ``y`` float32[b, classes]. If records have several labels,
            ``y`` is float32[b, classes] with a 1 for each label. Without labels, batches are ``x``
            alone.
        as_dict: Batches are dicts.
        columns: With as_dict: names of the extra columns to give; None = all.
        max_len: With as_dict: values to which lists of varying length are filled up.
        map: Called for each image.
        map_batches: Called for each batch.
        cache: None, "decoded" or a local folder.
        eval_remainder: Evaluation: "pad" or "partial".
        threads: Decoding threads; by default one per core.
        pin_memory: Tensors in pinned memory, for ``x.cuda(non_blocking=True)``. Images are decoded
            into it, so no copy is made for it. Leave ``pin_memory`` of a DataLoader out then.

    Raises:
        UsageError: as ``array_batches``; ``pin_memory`` without an accelerator.
        DatasetError: as ``array_batches``.
    """
    arrays = array_batches(
        dataset, split, batch_size, training=training, epochs=epochs, seed=seed, host=host, start_step=start_step,
        shuffle_buffer=shuffle_buffer, image_size=image_size, crop=crop, label=label, as_dict=as_dict,
        columns=columns, max_len=max_len, map=map,
        map_batches=map_batches, cache=cache, eval_remainder=eval_remainder, threads=threads,
    )  # fmt: skip
    if flag("pin_memory", pin_memory) and not torch.cuda.is_available():
        raise UsageError(
            "pin_memory=True: PyTorch finds no GPU here. Leave pin_memory out, or pass "
            "pin_memory=torch.cuda.is_available()."
        )
    return TorchBatches(arrays, pin_memory=pin_memory)
