"""JPEGs of another encoder that are damaged: what ``array_batches`` and ``verify`` refuse.

They refuse everything that ``load`` refuses, and the damage that TensorFlow's libjpeg hides.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.decoding import RecordProblem, image_decoder
from shardfeed.format.example import encode_example
from shardfeed.format.manifest import ImageInfo
from shardfeed.tfdata.decode import DecodeOptions, chunk_decoder
from shardfeed.verification.record import RecordCheck
from tests.kit import datasets
from tests.kit.datasets import write_dataset
from tests.reader.damage import records_of

PHOTO = next(Path(__file__).parents[2].glob("examples/sample_photos/*/*.jpg"))
END = b"\xff\xd9"


def jpeg(kind: str) -> bytes:
    out = io.BytesIO()
    with Image.open(PHOTO) as picture:
        small = picture.convert("L" if kind == "gray" else "RGB").resize((80, 64))
        small.save(out, "JPEG", quality=95, restart_marker_blocks=4 if kind == "restarts" else 0)
    return out.getvalue()


def damaged(data: bytes) -> dict[str, tuple[bytes, str]]:
    """Variants of a whole JPEG by name, and who refuses them: nobody, we (TensorFlow does not), or
    all.
    """
    half, scan = len(data) // 2, data.rfind(b"\xff\xda")
    return {
        "whole": (data, "nobody"),
        "zeros behind the end": (data + bytes(100), "nobody"),
        "text behind the end": (data + b"PK\3\4", "nobody"),
        "another image behind the end": (data + data, "nobody"),
        "no end": (data[:-2], "all"),
        "half an end": (data[:-1], "all"),
        "zeros for the end": (data[:-2] + bytes(2), "all"),
        "many zeros for the end": (data[:-2] + bytes(100), "all"),
        "text for the end": (data[:-2] + b"PK\3\4", "all"),
        "cut in the scan": (data[:half], "all"),
        "cut in the scan, filled up with zeros": (data[:half].ljust(len(data), b"\0"), "all"),
        "cut in the scan, with an end": (data[:half] + END, "we"),
        "cut in the scan, filled up with zeros, with an end": (data[:half].ljust(len(data), b"\0") + END, "we"),
        "an end in the scan": (data[:half] + END + data[half + 2 :], "we"),
        "cut before the scan": (data[:scan], "all"),
        "cut before the scan, with an end": (data[:scan] + END, "all"),
        "empty": (b"", "all"),
        "a byte before the start": (b"\0" + data, "all"),
    }


OTHER_KINDS = ("whole", "cut in the scan", "an end in the scan")


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("colour", variant) for variant in damaged(b"")] + [(k, variant) for k in ("gray", "restarts") for variant in OTHER_KINDS],
)  # fmt: skip
def test_a_jpeg_is_refused_if_load_refuses_it_and_if_its_end_came_too_early(kind: str, variant: str) -> None:
    data, refused_by = damaged(jpeg(kind))[variant]
    channels = 1 if kind == "gray" else 3
    image = ImageInfo(64, 80, channels, "jpeg", (0.0,) * channels, (1.0,) * channels)

    def theirs() -> np.ndarray:
        record = encode_example({"image": data, "class": 0})
        found: np.ndarray = chunk_decoder(image, DecodeOptions(size=None))(tf.constant([record]), None)["image"][
            0
        ].numpy()
        return found

    def ours() -> np.ndarray:
        return image_decoder("jpeg")(data, (64, 80, channels), None)

    if refused_by == "nobody":
        assert np.array_equal(ours(), theirs())
        return
    with pytest.raises(tf.errors.InvalidArgumentError) if refused_by == "all" else contextlib.nullcontext():
        theirs()
    with pytest.raises(RecordProblem, match=r"^image: expected a jpeg image of 64 x 80 x . that decodes, "):
        ours()


def test_the_readers_and_verify_decode_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = damaged(jpeg("colour"))["an end in the scan"]
    monkeypatch.setattr(datasets, "encode", lambda pixels, image_format: data)
    written = write_dataset(tmp_path, size=(64, 80), splits={"train": 3})

    assert len(list(shardfeed.load(tmp_path, "train", 3, training=False))) == 1
    with pytest.raises(shardfeed.DatasetError, match=r"record 0 at byte 0, key train/.*: image: expected a jpeg image"):
        list(shardfeed.array_batches(tmp_path, "train", 3, training=False))
    with pytest.raises(RecordProblem, match=r"expected a jpeg image of .* that decodes"):
        RecordCheck(written.manifest)(records_of(tmp_path)[0])
