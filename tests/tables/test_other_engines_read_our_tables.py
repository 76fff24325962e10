"""DuckDB, Polars, pandas and Hugging Face's datasets read the tables of a build, in an environment of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.cli.main import main
from tests.kit import disk
from tests.kit.commands import write_photos
from tests.kit.environments import python_with, run

CLASSES = {"a b": 7, "daisy": 9, "größe": 5}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    photos = write_photos(folder / "photos", **CLASSES)
    flags = ["--image_size", "16", "--splits", "train=0.7,validation=0.3", "--num_shards", "2"]
    assert main(["build", "--input", str(photos), "--output", str(folder / "out"), *flags]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def seen(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tables = tmp_path_factory.mktemp("tables")
    for table in built.glob("*.parquet"):  # pandas reads a folder of nothing else
        (tables / table.name).symlink_to(table)
    script = Path(__file__).with_name("read_tables.py")
    quiet = {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tables.parent / "hf")}
    output = run(
        str(python_with("tables")), str(script), str(tables), str(tables.parent / "cache"), env=os.environ | quiet
    )
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


@pytest.mark.parametrize("engine", ["duckdb", "polars", "pandas", "datasets"])
def test_an_engine_counts_the_classes_of_the_manifest_and_reads_every_row(
    engine: str, seen: dict[str, Any], built: Path
) -> None:
    info = shardfeed.info(built)
    expected = {name: sum(split.class_counts[name] for split in info.splits.values()) for name in info.manifest.classes}
    assert expected == CLASSES
    assert seen[engine]["counts"] == expected

    rows = {row["key"]: row for row in seen[engine]["rows"]}
    stored = {features["key"].decode(): features for _, features in disk.records(built)}
    assert {key: [row["label"], row["class"], row["height"], row["width"]] for key, row in rows.items()} == {
        key: [features["label"].decode(), features["class"], *features["size"]] for key, features in stored.items()
    }
    assert rows == {row["key"]: row for row in seen["duckdb"]["rows"]}  # every value of every column
