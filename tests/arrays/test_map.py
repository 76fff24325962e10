"""``map`` and ``map_batches``: what they get and make, and errors that name the record."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.testing import assert_resumes
from tests.kit.datasets import write_dataset


def shifted(image: Any, seed: int) -> Any:
    """A random change that can be seen in every image."""
    return image + np.random.default_rng(seed).integers(1, 255, dtype=np.uint8)


def noted(images: Any, seed: int) -> tuple[Any, int]:
    return images, seed


def batches(path: Path, split: str = "train", batch_size: int = 9, count: int = 5, **options: Any) -> list[Any]:
    return list(islice(shardfeed.array_batches(path, split, batch_size, **options), count))


@pytest.mark.parametrize(("image_format", "image_size"), [("jpeg", 6), ("png", None), ("raw", None)])
def test_each_image_is_what_map_makes_of_it(tmp_path: Path, image_format: str, image_size: int | None) -> None:
    write_dataset(tmp_path, image_format=image_format)

    def made(image: Any, seed: int) -> Any:
        image[0] = 7  # it is the function's own
        return image.astype(np.float32).mean(axis=2) / 255

    plain, mapped = (batches(tmp_path, image_size=image_size, map=one) for one in (None, made))

    for (images, labels), (found, same) in zip(plain, mapped, strict=True):
        images[:, 0] = 7
        assert found.dtype == np.float32 and np.array_equal(labels, same)
        assert np.array_equal(found, images.astype(np.float32).mean(axis=3) / 255)


def test_random_maps_and_crops_resume_to_the_bit(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None)
    options: dict[str, Any] = {"image_size": 12, "crop": "random_resized", "map": shifted, "threads": 3}

    assert_resumes(lambda step: shardfeed.array_batches(tmp_path, "train", 9, start_step=step, **options), steps=9)


def test_every_image_and_every_batch_of_every_pass_has_a_seed_of_its_own(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    seeds: list[int] = []

    def seen(image: Any, seed: int) -> Any:
        seeds.append(seed)
        return image

    found = batches(tmp_path, batch_size=37, count=3, map=seen, map_batches=noted)

    of_batches = [seed for _, seed in found]
    assert len(seeds) >= 3 * 37 and len({*seeds, *of_batches}) == len(seeds) + 3
    assert all(type(seed) is int and 0 <= seed < 1 << 64 for seed in [*seeds, *of_batches])

    def again(**options: Any) -> list[int]:
        return [seed for _, seed in batches(tmp_path, batch_size=37, count=3, map_batches=noted, **options)]

    assert of_batches == again() != again(seed=1)
    assert of_batches[1:] == again(start_step=1)[:2]


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(("as_dict", "host"), [(False, (0, 20)), (True, (0, 1))], ids=str)
def test_map_batches_gets_what_would_be_handed_out(tmp_path: Path, as_dict: bool, host: tuple[int, int]) -> None:
    write_dataset(tmp_path)
    for split in ("train", "validation"):
        options: dict[str, Any] = {"batch_size": 60, "as_dict": as_dict, "host": host, "label": "onehot", "count": 2}
        plain = batches(tmp_path, split, **options)

        found = batches(tmp_path, split, map_batches=noted, **options)

        assert len(plain) == len(found) == (2 if split == "train" else 1)
        for one, (other, _) in zip(plain, found, strict=True):
            assert type(one) is type(other)
            pairs = [(one[name], other[name]) for name in one] if as_dict else zip(one, other, strict=True)
            assert all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_a_host_without_records_pads_with_the_shape_that_map_makes(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    (found,) = batches(tmp_path, "validation", 60, host=(0, 20), map=lambda image, seed: image[:2, :, 0] / 2.0)

    assert [values.dtype for values in found] == [np.float64, np.int32, np.float32]
    assert found[0].shape == (3, 2, 12) and not any(values.any() for values in found)


def test_both_run_in_threads_of_the_reader(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    names: set[str] = set()

    def note(value: Any, seed: int) -> Any:
        names.add(threading.current_thread().name.rpartition("_")[0])
        return value

    batches(tmp_path, map=note, map_batches=note)

    assert names == {"shardfeed-decode", "shardfeed-map"}


@pytest.mark.parametrize(("as_dict", "cache"), [(False, None), (True, None), (False, "decoded")], ids=str)
def test_an_error_of_map_names_the_record(tmp_path: Path, as_dict: bool, cache: str | None) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    third = written.records["train"][2]

    def fail(image: Any, seed: int) -> Any:
        if np.array_equal(image, third.pixels):
            raise KeyError("mask")
        return image

    with pytest.raises(shardfeed.UsageError) as found:
        batches(tmp_path, as_dict=as_dict, cache=cache, map=fail)

    assert str(found.value) == (
        f"map failed at the record with the key {third.key.decode()}: KeyError: 'mask'. It is called with two arguments, a "
        "value and a seed. What it raised is the cause of this error."
    )
    assert isinstance(found.value.__cause__, KeyError)


def test_an_error_of_map_batches_names_the_first_record(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (first,) = batches(tmp_path, as_dict=True, count=1)
    key = first["key"][0].decode()

    with pytest.raises(
        shardfeed.UsageError,
        match=f"^map_batches failed at the batch that begins with the record with the key {key}: TypeError: ",
    ):
        batches(tmp_path, map_batches=lambda batch: batch)


def test_an_error_of_map_batches_at_padding_says_so(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    def fail(batch: Any, seed: int) -> Any:
        raise ValueError("empty")

    with (
        pytest.warns(UserWarning, match="rows of weight 0"),
        pytest.raises(
            shardfeed.UsageError,
            match=r"^map_batches failed at the batch that begins with its padding, which has no record: V",
        ),
    ):
        batches(tmp_path, "validation", 60, host=(0, 20), map_batches=fail)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (np.zeros((2, 2)), r"float64\[2, [23]\] at the record with the key .*, and float64\[2, [23]\] for"),
        (np.zeros((2, 3), np.float32), r"float(32|64)\[2, 3\] at the record .*, and float(32|64)\[2, 3\] for"),
        (None, r"NoneType at the record with the key train/\w+/\d+\.jpg: expected an array of numbers\.$"),
        ("text", r"str at the record with the key .*: expected an array of numbers\.$"),
        ([[1], [2, 3]], r"list at the record with the key .*: expected an array of numbers\.$"),
    ],
    ids=["another shape", "another type", "nothing", "text", "lists of several lengths"],
)
def test_images_of_a_batch_have_one_shape_and_type(tmp_path: Path, second: Any, message: str) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    one = written.records["train"][1].pixels

    def made(image: Any, seed: int) -> Any:
        return second if np.array_equal(image, one) else np.zeros((2, 3))

    with pytest.raises(shardfeed.UsageError, match=f"^map returned {message}"):
        batches(tmp_path, batch_size=37, map=made)


@pytest.mark.parametrize("name", ["map", "map_batches"])
def test_what_cannot_be_called_is_refused(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path)
    options: dict[str, Any] = {name: "flip"}

    with pytest.raises(shardfeed.UsageError) as found:
        batches(tmp_path, **options)

    assert str(found.value) == f"{name}='flip': expected None or a function of two arguments, a value and a seed."
