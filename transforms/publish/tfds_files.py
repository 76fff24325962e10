"""The three small files with which ``tfds.builder_from_directory(OUT)`` reads a dataset of ours.

They are written by hand as JSON, as TFDS 4.9.10 writes them. TFDS is no dependency: it pins an
old Beam and an old Pillow. A test reads our output with the real TFDS in an environment of its
own.

TFDS decodes images if its ``Image`` feature can (JPEG, PNG); raw pixels of one size are a
``Tensor``. It gives WebP and raw pixels of varying size as bytes: ``tf.image.decode_image``,
which it calls, makes a WebP four-dimensional, and a ``Tensor`` of two unknown sides would need
another column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shardfeed.format import naming
from shardfeed.format.columns import Column
from shardfeed.format.manifest import ImageInfo, Split

_MODULE = "tensorflow_datasets.core.features."
_TEMPLATE = "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"


def tfds_files(
    *,
    classes: Sequence[str],
    splits: Mapping[str, Split],
    image: ImageInfo,
    columns: Sequence[Column] = (),
    label_kind: str = "single",
) -> dict[str, bytes]:
    """Content of the files by name.

    ``label_kind``: as in the manifest. Without labels the file of class labels is empty.
    """
    info: dict[str, Any] = {
        "description": "Written by shardfeed; manifest.json says how.",
        "fileFormat": "tfrecord",
        "name": "shardfeed",
        "splits": [
            {
                "filepathTemplate": _TEMPLATE,
                "name": split,
                "numBytes": str(splits[split].bytes),
                "shardLengths": [str(shard.records) for shard in splits[split].shards],
            }
            for split in sorted(splits)
        ],
        "version": "1.0.0",
    }
    if label_kind != "none":
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "class"}]}}
    features = {
        "image": _image(image),
        **_labels(len(classes), label_kind),
        "size": _tensor("int64", "none", [2]),
        "key": _TEXT,
        **{column.name: _column(column) for column in columns},
    }
    config = _feature("features_dict.FeaturesDict", featuresDict={"features": features})
    labels = "".join(_label_line(label) + "\n" for label in classes)
    return {naming.DATASET_INFO: _json(info), naming.FEATURES: _json(config), naming.CLASS_LABELS: labels.encode()}


def _labels(classes: int, label_kind: str) -> dict[str, Any]:
    index = _feature("class_label_feature.ClassLabel", classLabel={"numClasses": str(classes)})
    single = {"class": index, "label": _TEXT}
    if label_kind == "multi":
        sequence = "sequence_feature.Sequence"
        return {name: _feature(sequence, sequence={"feature": of, "length": "-1"}) for name, of in single.items()}
    return single if label_kind == "single" else {}


def _image(image: ImageInfo) -> dict[str, Any]:
    if image.format in ("jpeg", "png"):
        shape = _shape([image.height, image.width, image.channels])
        return _feature("image_feature.Image", image={"dtype": "uint8", "encodingFormat": image.format, "shape": shape})
    if image.format == "raw" and image.height is not None and image.width is not None:
        return _tensor("uint8", "bytes", [image.height, image.width, image.channels])
    return _TEXT


def _column(column: Column) -> dict[str, Any]:
    if not column.shape and column.type in ("bytes", "string"):
        return _TEXT
    dtype = {"bytes": "bytes", "string": "string", "int64": "int64", "float": "float32", "bool": "bool"}[column.type]
    return _tensor(dtype, "none", list(column.shape))


def _tensor(dtype: str, encoding: str, dimensions: list[int | None]) -> dict[str, Any]:
    tensor = {"dtype": dtype, "encoding": encoding, "shape": _shape(dimensions)}
    return _feature("tensor_feature.Tensor", tensor=tensor)


def _feature(kind: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": _MODULE + kind, **content}


_TEXT = _feature("text_feature.Text", text={})  # TFDS' name for a scalar of bytes


def _shape(dimensions: Sequence[int | None]) -> dict[str, list[str]]:
    return {"dimensions": ["-1" if size is None else str(size) for size in dimensions]}


def _label_line(label: str) -> str:
    """A label; as a JSON string if TFDS would change it (it strips lines and drops empty ones)."""
    return label if label == label.strip() and label.splitlines() == [label] else json.dumps(label)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
