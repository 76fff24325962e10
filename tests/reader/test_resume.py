"""``start_step``: the stream from any step on, as if all steps before had been read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shardfeed
from shardfeed.testing import assert_resumes
from tests.kit.datasets import Written, write_dataset
from tests.reader.streams import READERS, THREE_BLOCKS, by_reader, numbers, train

N = 37


@by_reader("batch_size", [9, 24], load=[1])
def test_every_step_of_two_passes_can_be_resumed(written: Written, reader: Any, batch_size: int) -> None:
    options: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "host": (1, 3)}

    assert_resumes(
        lambda step: reader(written.path, "train", batch_size, start_step=step, **options), steps=90 // batch_size
    )


@by_reader("start", [12, N - 1, N, N + 1], load=[3])
def test_a_stream_can_be_entered_at_any_record(written: Written, reader: Any, start: int) -> None:
    whole = train(reader, written, 1, start + 8)

    assert train(reader, written, 1, 8, start_step=start) == whole[start:]


def test_random_crops_resume_to_the_pixel(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=(32, 40))

    assert_resumes(lambda step: shardfeed.load(tmp_path, "train", 9, start_step=step, crop="random_resized"), steps=3)


@READERS
def test_a_resumed_stream_of_epochs_has_the_steps_that_are_left(written: Written, reader: Any) -> None:
    options: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "epochs": 3}
    whole = train(reader, written, 10, **options)
    left = reader(written.path, "train", 10, start_step=4, **options)

    assert len(left) == 7 and len(whole) == 110
    assert numbers(left, written, "train") == whole[40:]
