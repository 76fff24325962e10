"""The photos that the repository ships, that it may ship them, and ``make demo`` on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from PIL import Image

from tests.kit import sources
from tests.kit.builds import run_program

PHOTOS = sources.ROOT / "examples" / "sample_photos"


def test_there_are_twenty_photos_of_each_of_ten_classes_and_nothing_else() -> None:
    counts: dict[Path, int] = {}
    for path in PHOTOS.rglob("*"):
        if path.is_file():
            counts[path.parent.relative_to(PHOTOS)] = counts.get(path.parent.relative_to(PHOTOS), 0) + 1
            assert path.suffix == ".jpg"
            assert path.read_bytes()[:3] == b"\xff\xd8\xff"
    names = ["dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt"]
    assert counts == dict.fromkeys(map(Path, names), 20)


def test_their_licence_and_origin_stand_beside_them() -> None:
    text = (PHOTOS.parent / "SAMPLE_PHOTOS.md").read_text()
    assert "CC0 1.0" in text
    assert "clothing-dataset-small" in text


def run(*arguments: str | Path) -> list[str]:
    command = [sys.executable, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(sources.ROOT)}
    done = subprocess.run(command, cwd=sources.ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_sample_photos_become_a_verified_dataset_and_a_picture_of_one_batch(tmp_path: Path) -> None:
    dataset, picture = tmp_path / "dataset", tmp_path / "batch.png"
    flags = ["--image_size", "224", "--num_shards", "4", "--splits", "train=0.8,validation=0.2"]
    run("-m", "shardfeed", "build", "--input", "examples/sample_photos", "--output", dataset, *flags)
    run("-m", "shardfeed", "verify", dataset, "--deep")
    ended = run_program(sources.ROOT / "examples/demo.py", dataset, picture, backend="tensorflow")
    assert ended.code == 0, ended.err
    said = ended.out.splitlines()
    assert said[:4] == [
        "train: 153 images, shards: " + ", ".join(f"train-0000{i}-of-00004.tfrecord" for i in range(4)),
        "validation: 47 images, shards: validation-00000-of-00001.tfrecord",
        "first training batch: images uint8 (32, 224, 224, 3), labels int32 (32,)",
        f"drawn to {picture}: look at it.",
    ]
    with Image.open(picture) as drawn:
        assert drawn.size == (8 * 228 + 4, 4 * 248 + 4)
        brightest = [drawn.crop((4, row * 248 + 228, 1820, row * 248 + 248)).getextrema() for row in range(4)]
    assert brightest == [((0, 255),) * 3] * 4  # black captions on white below every row
