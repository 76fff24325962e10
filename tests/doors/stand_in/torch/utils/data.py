"""Samplers and the loader, as PyTorch 2.15 calls a dataset; batches are made in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import torch


class Dataset:
    """What a user derives from."""


class DataLoader:
    """``len``, ``__getitems__`` if there is one, else ``[i]``; workers get the dataset by pickle."""

    def __init__(
        self, dataset: Any, batch_size: int, shuffle: bool = False, sampler: Any = None, num_workers: int = 0
    ) -> None:
        assert not (shuffle and sampler)
        self._dataset = pickle.loads(pickle.dumps(dataset)) if num_workers else dataset
        count = len(dataset)
        order = np.random.default_rng(0).permutation(count) if shuffle else np.arange(count)
        self._order = order.tolist() if sampler is None else sampler
        self._size = batch_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        order = list(self._order)
        for at in range(0, len(order), self._size):
            numbers = order[at : at + self._size]
            together = getattr(self._dataset, "__getitems__", lambda numbers: [self._dataset[each] for each in numbers])
            yield _collated(together(numbers))


def _collated(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = {name: [item[name] for item in items] for name in items[0]}
    return {
        name: values if isinstance(values[0], str) else torch.from_numpy(np.array(values))
        for name, values in found.items()
    }


class WeightedRandomSampler:
    """Numbers drawn by their weights."""

    def __init__(self, weights: Any, num_samples: int) -> None:
        self._weights, self._count = np.asarray(weights, float), num_samples

    def __iter__(self) -> Iterator[int]:
        p = self._weights / self._weights.sum()
        return iter(np.random.default_rng(0).choice(len(p), self._count, p=p).tolist())


class DistributedSampler:
    """Every ``num_replicas``-th number of an order that all processes agree on."""

    def __init__(self, dataset: Any, num_replicas: int, rank: int) -> None:
        self._count, self._hosts, self._host, self._epoch = len(dataset), num_replicas, rank, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self._epoch).permutation(self._count)[self._host :: self._hosts].tolist())
