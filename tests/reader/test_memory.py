"""How many decoded pixels the two readers have in hand beside their batches: bytes, whatever cores
and images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.arrays import pipeline
from shardfeed.arrays.decoder import RecordDecoder
from shardfeed.tfdata import batching
from tests.kit.datasets import Written, write_dataset
from tests.reader.streams import READERS, train

BOUND = 512 << 20  # bytes, as README and docs/how-to/large-images.md say


def records_a_call(side: int, threads: int, monkeypatch: pytest.MonkeyPatch, batch_size: int = 1024) -> int:
    """Records that ``load`` gives to a decode call, of images of ``side`` x ``side`` pixels in
    color.
    """
    found: list[int] = []
    monkeypatch.setattr(batching, "threads", lambda: threads)

    def decode(records: Any, positions: Any) -> Any:
        tf.numpy_function(lambda records: found.append(len(records)), [records], [], stateful=True)
        return {"record": records}

    stream = tf.data.Dataset.range(2 * batch_size)
    image = tf.TensorSpec([side, side, 3], tf.uint8)
    for _ in batching.batches(stream, decode, lambda columns: columns, batch_size, image=image, drop_remainder=True):
        pass
    return max(found)


@pytest.mark.parametrize(("side", "threads"), [(1024, 64), (224, 64), (2048, 18)])
def test_decode_calls_of_load_hold_at_most_512_mib(side: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BOUND / 2 < threads * records_a_call(side, threads, monkeypatch) * side * side * 3 <= BOUND


@pytest.mark.parametrize("threads", [3, 27])
def test_a_decode_call_has_128_images_of_224_x_224_on_up_to_25_cores(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert records_a_call(224, threads, monkeypatch) == 128


def test_a_decode_call_has_one_image_at_least_and_no_more_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert records_a_call(8000, 64, monkeypatch) == 1
    assert records_a_call(224, 4, monkeypatch, batch_size=7) == 7


@pytest.mark.parametrize(("side", "threads"), [(1024, 64), (224, 64), (2048, 16)])
def test_tasks_ahead_of_array_batches_hold_at_most_512_mib(side: int, threads: int) -> None:
    records = pipeline.records_per_task((side, side, 3), threads)

    assert BOUND / 2 < 2 * threads * records * side * side * 3 <= BOUND


@pytest.mark.parametrize("threads", [1, 27])
def test_a_task_has_64_images_of_224_x_224_on_up_to_27_threads(threads: int) -> None:
    assert pipeline.records_per_task((224, 224, 3), threads) == 64


def test_array_batches_gives_a_thread_as_few_images_as_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path)
    given: list[int] = []
    decode = RecordDecoder.pixels

    def pixels(decoder: Any, examples: Any, numbers: Sequence[int], *rest: Any) -> None:
        given.append(len(numbers))
        decode(decoder, examples, numbers, *rest)

    monkeypatch.setattr(RecordDecoder, "pixels", pixels)
    # five images a task of two threads
    monkeypatch.setattr(pipeline, "DECODED_AHEAD", 2 * 2 * 5 * 8 * 12 * 3)
    (_,) = shardfeed.array_batches(tmp_path, "train", 37, epochs=1, threads=2)

    assert sorted(given) == [2, 5, 5, 5, 5, 5, 5, 5]


@READERS
def test_the_order_does_not_depend_on_it(written: Written, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(reader, written, 9, epochs=3, start_step=2)
    four_images = batching.threads() * 4 * 8 * 12 * 3  # bytes, for each thread
    for module in (batching, pipeline):
        monkeypatch.setattr(module, "DECODED_AHEAD", four_images)

    assert train(reader, written, 9, epochs=3, start_step=2) == expected
