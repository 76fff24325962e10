"""``start_step``: the stream from any step on, as if all steps before had been read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardfeed
from tests.kit.datasets import Written, write_dataset
from tests.reader.streams import THREE_BLOCKS

N, B = 37, 5


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(tmp_path_factory.mktemp("dataset"), size=(32, 40))


def batches(written: Written, count: int, **options: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    options = {"shuffle_buffer": THREE_BLOCKS, **options}
    return list(shardfeed.load(written.path, "train", 2 * B, **options).take(count).as_numpy_iterator())


def assert_equal(found: list[tuple[np.ndarray, ...]], expected: list[tuple[np.ndarray, ...]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left, right)


def test_every_step_can_be_resumed_to_the_pixel(written: Written) -> None:
    whole = batches(written, 10)

    for step in range(9):  # more than two passes
        assert_equal(batches(written, 1, start_step=step), whole[step : step + 1])


@pytest.mark.parametrize("step", [1, 4, 9])
def test_each_host_resumes_its_own_share(written: Written, step: int) -> None:
    whole = batches(written, 11, host=(1, 2))

    assert_equal(batches(written, 2, host=(1, 2), start_step=step), whole[step : step + 2])


def test_a_resumed_stream_of_epochs_has_the_steps_that_are_left(written: Written) -> None:
    whole = batches(written, -1, epochs=3)
    rest = shardfeed.load(written.path, "train", 2 * B, shuffle_buffer=THREE_BLOCKS, epochs=3, start_step=4)

    assert rest.cardinality() == 7 and len(whole) == 11
    assert_equal(list(rest.as_numpy_iterator()), whole[4:])
