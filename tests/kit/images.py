"""Trees of small real images."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 32, 24


def photo(seed: int, *, size: tuple[int, int] = (WIDTH, HEIGHT), image_format: str = "JPEG") -> bytes:
    """A gradient with some noise, as a file."""
    random = np.random.default_rng(seed)
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    slopes = random.uniform(-4, 4, (2, 3))
    pixels = random.uniform(60, 190, 3) + x[..., None] * slopes[0] + y[..., None] * slopes[1]
    pixels += random.normal(0, 8, pixels.shape)
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, image_format)
    return out.getvalue()


def write(root: Path, key: str | bytes, data: bytes) -> bytes:
    """One input file. Its modification time follows from its key: equal trees list equally."""
    name = os.fsencode(key)
    path = os.path.join(os.fsencode(root), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    moment = 1_700_000_000 + sum(name)
    os.utime(path, (moment, moment))
    return name


def make_photos(root: Path, *, classes: Iterable[str] = ("cat", "dog"), each: int = 6, seed: int = 0) -> Path:
    """``each`` photos in every class folder below ``root``."""
    for index, name in enumerate(classes):
        for number in range(each):
            write(root, f"{name}/{number:03d}.jpg", photo(seed * 1_000_003 + index * 1_009 + number))
    return root
