"""JPEGs of another encoder that are damaged, with right checksums: both readers and ``verify`` take and refuse the same ones."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.verify_record import RecordCheck, RecordProblem
from tests import datasets
from tests.arrays.test_damage import records_of
from tests.datasets import write_dataset

PHOTO = next(Path(__file__).parents[2].glob("examples/sample_photos/*/*.jpg"))
END = b"\xff\xd9"


def jpeg(kind: str) -> bytes:
    out = io.BytesIO()
    with Image.open(PHOTO) as picture:
        small = picture.convert("L" if kind == "gray" else "RGB").resize((80, 64))
        small.save(out, "JPEG", quality=95, restart_marker_blocks=4 if kind == "restarts" else 0)
    return out.getvalue()


def damaged(data: bytes) -> dict[str, tuple[bytes, bool]]:
    """Variants of a whole JPEG by name, and whether they are images still."""
    half, scan = len(data) // 2, data.rfind(b"\xff\xda")
    return {
        "whole": (data, True),
        "zeros behind the end": (data + bytes(100), True),
        "text behind the end": (data + b"PK\3\4", True),
        "another image behind the end": (data + data, True),
        "no end": (data[:-2], False),
        "half an end": (data[:-1], False),
        "zeros for the end": (data[:-2] + bytes(2), False),
        "many zeros for the end": (data[:-2] + bytes(100), False),
        "text for the end": (data[:-2] + b"PK\3\4", False),
        "cut in the scan": (data[:half], False),
        "cut in the scan, filled up with zeros": (data[:half].ljust(len(data), b"\0"), False),
        "cut in the scan, with an end": (data[:half] + END, True),
        "cut in the scan, filled up with zeros, with an end": (data[:half].ljust(len(data), b"\0") + END, True),
        "an end in the scan": (data[:half] + END + data[half + 2 :], True),
        "cut before the scan": (data[:scan], False),
        "cut before the scan, with an end": (data[:scan] + END, False),
        "empty": (b"", False),
        "a byte before the start": (b"\0" + data, False),
    }


@pytest.mark.parametrize("simplejpeg", [True, False], ids=["simplejpeg", "Pillow"])
@pytest.mark.parametrize("variant", damaged(b""))
@pytest.mark.parametrize("kind", ["colour", "gray", "restarts"])
@pytest.mark.filterwarnings("ignore:simplejpeg is not installed")
def test_both_readers_and_verify_agree(
    tmp_path: Path, kind: str, variant: str, simplejpeg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, whole = damaged(jpeg(kind))[variant]
    monkeypatch.setattr(datasets, "encode", lambda pixels, image_format: data)
    options = {"size": (64, 80), "channels": 1 if kind == "gray" else 3, "splits": {"train": 3}, "shards": 3}
    written = write_dataset(tmp_path, **options)  # type: ignore[arg-type]
    if not simplejpeg:
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
    theirs = shardfeed.load(tmp_path, "train", 3, training=False)
    ours = shardfeed.array_batches(tmp_path, "train", 3, training=False)
    check, record = RecordCheck(written.manifest), records_of(tmp_path)[0]

    if whole:
        ((expected, *_),), ((found, *_),) = theirs, ours
        assert np.array_equal(found, expected.numpy())
        check(record)
        return
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(theirs)
    with pytest.raises(shardfeed.DatasetError, match=r"record 0 at byte 0, key train/.*: image: expected a jpeg image"):
        list(ours)
    with pytest.raises(RecordProblem, match="expected a jpeg image that decodes"):
        check(record)
