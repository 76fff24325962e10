"""``load`` in a process that was forked from one that had used it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import shardfeed
from shardfeed.errors import UsageError
from tests.kit.datasets import write_dataset


def test_it_is_refused_where_tensorflow_would_wait_for_ever(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path).path
    shardfeed.load(dataset, "train", batch_size=2)
    ours, theirs = os.pipe()

    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # should it wait after all
        try:
            shardfeed.load(dataset, "train", batch_size=2)
        except UsageError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(theirs)

    with open(ours) as answer:
        assert answer.read() == (
            "load: this process was forked from one that had used load, and TensorFlow would wait for ever in it. Start "
            "processes with multiprocessing.get_context('spawn'), or read with array_batches."
        )
