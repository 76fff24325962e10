"""``tfds.builder_from_directory(OUT)`` with the real TFDS 4.9.10, in an environment of its own."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.cli.main import main
from shardfeed.transforms.publish.tfds_files import tfds_files
from tests.contract import test_label_kinds_and_columns as kinds
from tests.kit.commands import write_photos
from tests.kit.datasets import Written, write_dataset
from tests.kit.environments import python_with, run

CASES: dict[str, dict[str, Any]] = {
    "jpeg": {"image_format": "jpeg"},
    "jpeg-gray": {"image_format": "jpeg", "channels": 1},
    "jpeg-varying": {"image_format": "jpeg", "size": None},
    "png": {"image_format": "png"},
    "png-gray-varying": {"image_format": "png", "size": None, "channels": 1},
    "webp": {"image_format": "webp"},
    "raw": {"image_format": "raw"},
    "raw-gray": {"image_format": "raw", "channels": 1},
    "raw-varying": {"image_format": "raw", "size": None},
    "awkward-classes": {"image_format": "png", "classes": (" left", "right ", "two\nlines", "länge", "ö b", "7")},
}
FORMATS = ("jpeg", "png", "webp", "raw")
BUILT_CLASSES = ("a b", "daisy", "größe")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    made = {}
    for name, options in CASES.items():
        written = made[name] = write_dataset(tmp_path_factory.mktemp(name), **options)
        manifest = written.manifest
        files = tfds_files(classes=manifest.classes, splits=manifest.splits, image=manifest.image)
        for file, data in files.items():
            (written.path / file).write_bytes(data)
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What ``shardfeed build`` writes of the same photos in each format."""
    folder = tmp_path_factory.mktemp("built")
    photos = write_photos(folder / "photos", **dict.fromkeys(BUILT_CLASSES, 7))
    flags = ["--input", str(photos), "--image_size", "16", "--splits", "train=0.7,validation=0.3", "--num_shards", "2"]
    for name in FORMATS:
        assert main(["build", *flags, "--image_format", name, "--output", str(folder / name)]) == 0
    return {f"built-{name}": folder / name for name in FORMATS}


@pytest.fixture(scope="module")
def seen(
    datasets: dict[str, Written], built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What TFDS sees of all datasets, in one interpreter: starting TensorFlow costs most."""
    folders = {name: written.path for name, written in datasets.items()} | built
    for kind, of_kind in kinds.build_kinds(tmp_path_factory.mktemp("kinds"), "local").items():
        folders[kind] = of_kind.by_driver["local"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ""}
    script = str(Path(__file__).with_name("read_datasets.py"))
    output = run(str(python_with("tfds")), script, *map(str, folders.values()), env=os.environ | quiet)
    return dict(zip(folders, json.loads(output), strict=True))


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


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("png", "raw-gray", "awkward"))] + ["raw"])
def test_tfds_decodes_the_pixels_exactly(case: str, datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    images = {name: [row["image"] for row in rows] for name, rows in seen[case]["examples"].items()}
    assert images == {
        name: [[list(record.pixels.shape), "uint8", digest(record.pixels.tobytes())] for record in records]
        for name, records in datasets[case].records.items()
    }


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("jpeg")])
def test_tfds_decodes_jpeg_images_to_their_size(case: str, datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    shapes = {name: [row["image"][:2] for row in rows] for name, rows in seen[case]["examples"].items()}
    assert shapes == {
        name: [[list(record.pixels.shape), "uint8"] for record in records]
        for name, records in datasets[case].records.items()
    }


@pytest.mark.parametrize("case", ["webp", "raw-varying"])
def test_tfds_hands_out_the_stored_bytes_of_images_that_it_cannot_decode(
    case: str, datasets: dict[str, Written], seen: dict[str, Any]
) -> None:
    images = {name: [row["image"] for row in rows] for name, rows in seen[case]["examples"].items()}
    assert images == {
        name: [digest(record.image) for record in records] for name, records in datasets[case].records.items()
    }
    if case == "webp":
        picture = Image.open(io.BytesIO(datasets[case].records["train"][0].image))
        assert np.asarray(picture).shape == (8, 12, 3)


@pytest.mark.parametrize(
    ("case", "shape"),
    [
        ("jpeg", [8, 12, 3]), ("jpeg-gray", [8, 12, 1]), ("jpeg-varying", [None, None, 3]),
        ("png-gray-varying", [None, None, 1]), ("raw", [8, 12, 3]), ("webp", []), ("raw-varying", []),
    ],
)  # fmt: skip
def test_the_static_shape_is_known_where_sizes_do_not_vary(
    case: str, shape: list[int | None], seen: dict[str, Any]
) -> None:
    assert seen[case]["image_shape"] == shape


def test_splits_shard_lengths_and_classes_are_ours(datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    assert seen["jpeg"]["splits"] == {"train": [37, [12, 12, 13]], "validation": [10, [3, 3, 4]]}
    assert seen["jpeg"]["classes"] == ["daisy", "rose", "tulip"]
    assert seen["jpeg"]["name"] == "shardfeed"
    assert seen["jpeg"]["supervised_keys"] == ["image", "class"]


def test_a_slice_of_a_split_skips_by_our_shard_lengths(datasets: dict[str, Written], seen: dict[str, Any]) -> None:
    records = datasets["jpeg"].records
    assert seen["jpeg"]["slice"] == [record.key.decode() for split in records.values() for record in split[2:4]]


def test_class_names_that_lines_of_text_cannot_hold_are_quoted(seen: dict[str, Any]) -> None:
    assert seen["awkward-classes"]["classes"] == ['" left"', '"right "', '"two\\nlines"', "länge", "ö b", "7"]


@pytest.mark.parametrize("name", FORMATS)
def test_tfds_reads_what_a_build_wrote_as_load_does(name: str, built: dict[str, Path], seen: dict[str, Any]) -> None:
    found = seen[f"built-{name}"]
    assert found["classes"] == list(BUILT_CLASSES)
    assert {split: [(row["key"], row["class"]) for row in rows] for split, rows in found["examples"].items()} == {
        split: [
            (plain(key), BUILT_CLASSES.index(key.decode().partition("/")[0]))
            for batch in shardfeed.load(
                built[f"built-{name}"], split, 8, training=False, as_dict=True, eval_remainder="partial"
            ).as_numpy_iterator()
            for key in batch["key"]
        ]
        for split in ("train", "validation")
    }


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
