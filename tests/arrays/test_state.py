"""``state_dict`` and ``load_state_dict``: where a stream is, and proof that it is the same."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from tests.arrays.test_map import shifted
from tests.kit.datasets import write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), size=(24, 20)).path


def stream(folder: Any, split: str = "train", batch_size: int = 9, **options: Any) -> shardfeed.ArrayBatches:
    return shardfeed.array_batches(folder, split, batch_size, as_dict=True, **options)


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("taken", "cache", "start_step"),
    [(0, None, 2), (1, None, 0), (5, None, 2), (1, "decoded", 2), (5, "folder", 2)],
)
def test_a_stream_goes_on_where_the_state_was_saved(
    folder: Path, tmp_path: Path, taken: int, cache: str | None, start_step: int
) -> None:
    options: dict[str, Any] = {
        "crop": "random_resized", "image_size": 12, "map": shifted, "start_step": start_step, "host": (1, 2),
        "batch_size": 8, "cache": str(tmp_path / "copies") if cache == "folder" else cache,
    }  # fmt: skip
    first = stream(folder, **options)
    reading = iter(first)
    whole = list(islice(reading, taken))
    state = json.loads(json.dumps(first.state_dict()))
    whole += islice(reading, 12)

    resumed = stream(folder, **options)
    resumed.load_state_dict(state)

    assert state["step"] == start_step + taken
    assert_same(list(islice(resumed, 12)), whole[taken:])


def test_an_elastic_stream_goes_on_with_the_same_pixels_on_another_number_of_hosts(tmp_path: Path) -> None:
    write_dataset(tmp_path, block_records=1, size=(24, 20))
    options: dict[str, Any] = {"batch_size": 8, "crop": "random_resized", "map": shifted}
    one = stream(tmp_path, host=(0, 1), **options)
    reading = iter(one)
    list(islice(reading, 3))
    state = one.state_dict()
    rest = list(islice(reading, 6))

    shares = []
    for index in range(4):
        share = stream(tmp_path, host=(index, 4), **options)
        share.load_state_dict(state)
        shares.append(list(islice(share, 6)))
    for step, whole in enumerate(rest):
        for name, values in whole.items():
            rows = np.stack([share[step][name] for share in shares], axis=1)
            assert np.array_equal(rows.reshape(values.shape), values)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(("taken", "host"), [(0, (0, 4)), (1, (0, 1)), (2, (3, 4)), (3, (0, 1))], ids=str)
def test_evaluation_goes_on_too(folder: Path, taken: int, host: tuple[int, int]) -> None:
    first = stream(folder, "validation", 4, host=host)
    whole = list(first)
    reading = iter(first)
    for _ in range(taken):
        next(reading)

    resumed = stream(folder, "validation", 4, host=host)
    resumed.load_state_dict(first.state_dict())

    rest = list(resumed)
    assert len(whole) == 3 and len(rest) == 3 - taken
    if taken < 3:
        assert_same(rest, whole[taken:])


def test_a_loaded_state_counts_for_one_reading(folder: Path) -> None:
    batches = stream(folder, epochs=1)
    whole = list(batches)
    batches.load_state_dict(batches.state_dict() | {"step": 3})

    assert_same(list(batches), whole[3:])
    assert len(batches) == 4
    with pytest.warns(UserWarning, match="epochs=1"):
        assert_same(list(batches), whole)


def test_a_stream_that_has_ended_goes_on_if_it_is_given_more_epochs(folder: Path) -> None:
    whole = list(stream(folder, epochs=2))
    ended = stream(folder, epochs=1)
    assert_same(list(ended), whole[:4])
    same, longer = stream(folder, epochs=1), stream(folder, epochs=2)

    for resumed in (same, longer):
        resumed.load_state_dict(ended.state_dict())

    assert ended.state_dict()["step"] == 4 and list(same) == []
    assert_same(list(longer), whole[4:])


def test_the_state_travels_with_the_stream_to_another_process(folder: Path) -> None:
    batches = stream(folder)
    whole = list(islice(batches, 6))
    batches.load_state_dict(batches.state_dict() | {"step": 4})

    travelled = pickle.loads(pickle.dumps(batches))

    assert travelled.state_dict() == batches.state_dict()
    assert_same(list(islice(travelled, 2)), whole[4:])


@pytest.mark.parametrize("seed", [0, -(1 << 63), (1 << 64) - 1, 1 << 64], ids=repr)
def test_a_state_has_at_most_100_bytes(folder: Path, seed: int) -> None:
    batches = stream(folder, batch_size=65_536, seed=seed, shuffle_buffer="100GB", host=(3, 16))

    batches.load_state_dict(batches.state_dict() | {"step": 10_000_000})

    assert len(json.dumps(batches.state_dict())) <= 100
    assert batches.state_dict()["step"] == 10_000_000


SAVED: dict[str, Any] = {"batch_size": 8, "seed": 3, "host": (0, 2), "shuffle_buffer": "1MB"}


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"batch_size": 16}, "batch_size is 8 in the state and 16 here"),
        ({"seed": 4}, "seed is 3 in the state and 4 here"),
        ({"shuffle_buffer": "2MB"}, "shuffle_buffer (bytes) is 1000000 in the state and 2000000 here"),
        ({"host": (0, 1)}, "number of hosts is 2 in the state and any here"),
        ({"split": "validation", "training": True}, "split is train in the state and validation here"),
        (
            {"training": False},
            "seed is 3 in the state and none here; shuffle_buffer (bytes) is 1000000 in the state and none here",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_the_state_of_another_stream_is_refused(folder: Path, changed: dict[str, Any], difference: str) -> None:
    state = stream(folder, **SAVED).state_dict()
    other = stream(folder, **{**SAVED, **changed})

    with pytest.raises(shardfeed.UsageError) as found:
        other.load_state_dict(state)

    assert str(found.value) == (
        f"load_state_dict: the state is that of another stream: {difference}. Pass the arguments with which the state was "
        "saved, or begin anew without it."
    )


def test_the_state_of_another_dataset_is_refused(folder: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path, size=(24, 20), fingerprint="f" * 32).path

    difference = r"dataset \(fingerprint\) is 0123456789abcdef in the state and ffffffffffffffff here"
    with pytest.raises(shardfeed.UsageError, match=difference):
        stream(other).load_state_dict(stream(folder).state_dict())


@pytest.mark.parametrize(
    "change",
    [None, 3, {}, {"step": "1"}, {"step": -1}, {"step": True}, {"step": 1 << 31}, {"stream": "x"}, {"stream": 5}],
    ids=repr,
)
def test_what_is_no_state_is_refused(folder: Path, change: Any) -> None:
    batches = stream(folder)
    state = batches.state_dict() | change if change and isinstance(change, dict) else change

    expected = r"^load_state_dict\(.*: expected what state_dict\(\) of array_batches gave"
    with pytest.raises(shardfeed.UsageError, match=expected):
        batches.load_state_dict(state)


def test_a_state_behind_the_end_is_refused(folder: Path) -> None:
    longer, batches = stream(folder, epochs=3), stream(folder, epochs=1)
    longer.load_state_dict(longer.state_dict() | {"step": 9})

    ends = r"before step 9, and this stream ends after 4 steps\. Give it more epochs"
    with pytest.raises(shardfeed.UsageError, match=ends):
        batches.load_state_dict(longer.state_dict())


def test_two_readings_do_not_disturb_each_other(folder: Path) -> None:
    batches = stream(folder)
    whole = list(islice(batches, 4))

    one: Iterator[Any] = iter(batches)
    next(one)
    other = iter(batches)

    assert_same([next(one), next(other), next(one)], [whole[1], whole[0], whole[2]])
    assert batches.state_dict()["step"] == 3  # of the reading that went on last
