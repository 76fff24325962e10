"""``start_step``: the stream from any step on, as if all steps before had been read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.testing import assert_resumes
from tests.kit.datasets import Written, write_dataset
from tests.reader.streams import READERS, THREE_BLOCKS, by_reader, train

N = 37


@by_reader("host,batch_size", [((0, 1), 9), ((1, 3), 9), ((1, 3), 24)], load=[2])
def test_every_step_of_two_passes_can_be_resumed(
    written: Written, reader: Any, host: tuple[int, int], batch_size: int
) -> None:
    options: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "host": host}
    steps = 90 // batch_size

    assert_resumes(lambda step: reader(written.path, "train", batch_size, start_step=step, **options), steps=steps)


@by_reader("start", [1, 11, 12, N - 1, N, N + 1, 2 * N + 20], load=[2, 5])
def test_a_stream_can_be_entered_at_any_record(written: Written, reader: Any, start: int) -> None:
    whole = train(reader, written, 1, start + 8)

    assert train(reader, written, 1, 8, start_step=start) == whole[start:]


@pytest.mark.parametrize("cache", [None, "decoded", "folder"], ids=str)
def test_random_crops_resume_to_the_pixel(tmp_path: Path, cache: str | None) -> None:
    write_dataset(tmp_path / "dataset", size=(32, 40))
    options = {"crop": "random_resized", "cache": str(tmp_path / "copies") if cache == "folder" else cache}

    assert_resumes(
        lambda step: shardfeed.load(tmp_path / "dataset", "train", 9, start_step=step, **options),  # type: ignore[arg-type]
        steps=3,
    )


@READERS
def test_a_resumed_stream_of_epochs_has_the_steps_that_are_left(written: Written, reader: Any) -> None:
    options: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "epochs": 3}
    whole = train(reader, written, 10, **options)

    assert len(reader(written.path, "train", 10, start_step=4, **options)) == 7
    assert train(reader, written, 10, start_step=4, **options) == whole[40:] and len(whole) == 110
