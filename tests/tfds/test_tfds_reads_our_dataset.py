"""``tfds.builder_from_directory(OUT)`` with the real TFDS 4.9.10, in an environment of its own."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardfeed.format.manifest import Manifest
from shardfeed.transforms.publish.tfds_files import tfds_files
from tests.contract import test_label_kinds_and_columns as kinds
from tests.kit.datasets import Written, write_dataset
from tests.kit.environments import python_with, run

CASES: dict[str, dict[str, Any]] = {
    "jpeg": {"image_format": "jpeg"},
    "png-gray-varying": {"image_format": "png", "size": None, "channels": 1},
    "webp": {"image_format": "webp"},
    "raw-gray": {"image_format": "raw", "channels": 1},
    "raw-varying": {"image_format": "raw", "size": None},
    "awkward-classes": {"image_format": "png", "classes": (" left", "right ", "two\nlines", "länge", "ö b", "7")},
}


def files_of(manifest: Manifest) -> dict[str, bytes]:
    return tfds_files(classes=manifest.classes, splits=manifest.splits, image=manifest.image)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    made = {}
    for name, options in CASES.items():
        written = made[name] = write_dataset(tmp_path_factory.mktemp(name), **options)
        for file, data in files_of(written.manifest).items():
            (written.path / file).write_bytes(data)
    return made


@pytest.fixture(scope="module")
def seen(datasets: dict[str, Written], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What TFDS sees of all datasets, in one interpreter: starting TensorFlow costs most."""
    folders = {name: written.path for name, written in datasets.items()}
    for kind, of_kind in kinds.build_kinds(tmp_path_factory.mktemp("kinds"), "local").items():
        folders[kind] = of_kind.by_driver["local"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ""}
    script = str(Path(__file__).with_name("read_datasets.py"))
    output = run(str(python_with("tfds")), script, *map(str, folders.values()), env=os.environ | quiet)
    return dict(zip(folders, json.loads(output), strict=True))


def test_the_files_do_not_depend_on_the_order_of_the_splits(datasets: dict[str, Written]) -> None:
    manifest = datasets["jpeg"].manifest
    turned = replace(manifest, splits=dict(reversed([*manifest.splits.items()])))

    assert list(turned.splits) != list(manifest.splits) and files_of(turned) == files_of(manifest)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("case", CASES)
def test_tfds_sees_every_record_with_every_column_in_our_order(
    case: str, datasets: dict[str, Written], seen: dict[str, Any]
) -> None:
    written = datasets[case]
    found = {
        name: [{column: value for column, value in row.items() if column != "image"} for row in rows]
        for name, rows in seen[case]["examples"].items()
    }
    assert found == {
        name: [
            {
                "class": record.label,
                "label": plain(written.manifest.classes[record.label].encode()),
                "key": plain(record.key),
                "size": list(record.pixels.shape[:2]),
            }
            for record in records
        ]
        for name, records in written.records.items()
    }


def plain(value: bytes) -> str:
    return value.decode() if value.isascii() else digest(value)


@pytest.mark.parametrize("case", ["png-gray-varying", "raw-gray", "awkward-classes"])
def test_tfds_decodes_the_pixels_exactly(case: str, datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    images = {name: [row["image"] for row in rows] for name, rows in seen[case]["examples"].items()}
    assert images == {
        name: [[list(record.pixels.shape), "uint8", digest(record.pixels.tobytes())] for record in records]
        for name, records in datasets[case].records.items()
    }


def test_tfds_decodes_jpeg_images_to_their_size(datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    shapes = {name: [row["image"][:2] for row in rows] for name, rows in seen["jpeg"]["examples"].items()}
    assert shapes == {
        name: [[list(record.pixels.shape), "uint8"] for record in records]
        for name, records in datasets["jpeg"].records.items()
    }


@pytest.mark.parametrize("case", ["webp", "raw-varying"])
def test_tfds_hands_out_the_stored_bytes_of_images_that_it_cannot_decode(
    case: str, datasets: dict[str, Written], seen: dict[str, Any]
) -> None:
    images = {name: [row["image"] for row in rows] for name, rows in seen[case]["examples"].items()}
    assert images == {
        name: [digest(record.image) for record in records] for name, records in datasets[case].records.items()
    }


def test_the_static_shape_is_known_where_sizes_do_not_vary(seen: dict[str, Any]) -> None:
    assert {case: seen[case]["image_shape"] for case in CASES} == {
        "jpeg": [8, 12, 3],
        "png-gray-varying": [None, None, 1],
        "webp": [],
        "raw-gray": [8, 12, 1],
        "raw-varying": [],
        "awkward-classes": [8, 12, 3],
    }


def test_splits_shard_lengths_and_classes_are_ours(seen: dict[str, Any]) -> None:
    assert seen["jpeg"]["splits"] == {"train": [37, [12, 12, 13]], "validation": [10, [3, 3, 4]]}
    assert seen["jpeg"]["classes"] == ["daisy", "rose", "tulip"]
    assert seen["jpeg"]["name"] == "shardfeed"
    assert seen["jpeg"]["supervised_keys"] == ["image", "class"]


def test_a_slice_of_a_split_skips_by_our_shard_lengths(datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    records = datasets["jpeg"].records
    assert seen["jpeg"]["slice"] == [record.key.decode() for split in records.values() for record in split[2:4]]


def test_class_names_that_lines_of_text_cannot_hold_are_quoted(seen: dict[str, Any]) -> None:
    assert seen["awkward-classes"]["classes"] == ['" left"', '"right "', '"two\\nlines"', "länge", "ö b", "7"]


def as_tfds_shows(value: Any) -> Any:
    """Bytes and text as ``read_datasets.plain`` shows them."""
    if isinstance(value, list):
        return [as_tfds_shows(one) for one in value]
    data = value.encode() if isinstance(value, str) else value
    return plain(data) if isinstance(data, bytes) else value


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_tfds_sees_the_labels_and_columns_of_a_build(kind: str, seen: dict[str, Any]) -> None:
    classes = kinds.CLASSES[kind]
    assert seen[kind]["classes"] == classes
    examples = [row for rows in seen[kind]["examples"].values() for row in rows]
    found = {}
    for row in examples:
        assert row.pop("size") == [16, 16] and row.pop("image")[:2] == [[16, 16, 3], "uint8"]
        key, numbers, names = row.pop("key"), row.pop("class", []), row.pop("label", [])
        if kind == "single":
            numbers, names = [numbers], [names]
        assert names == [classes[number] for number in numbers]
        found[key] = {"labels": numbers, **row}
    assert len(found) == len(examples)
    assert found == {
        as_tfds_shows(key): {name: as_tfds_shows(value) for name, value in kinds.as_float32(row).items()}
        for key, row in kinds.expected(kind).items()
    }
