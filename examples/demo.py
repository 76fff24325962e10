"""What ``make demo`` shows last: one batch as a trainer gets it, drawn with its labels.

    python examples/demo.py DATASET PICTURE.png

The batch comes from the reader, so what is seen here went through shards, shuffling and decoding.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's notes about this CPU are not the point here

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import shardfeed

COLUMNS, ROWS = 8, 4
CAPTION = 20  # pixels below each image
GAP = 4  # pixels between images


def draw(images: np.ndarray, captions: list[str]) -> Image.Image:
    """A grid of ``images`` (uint8, N x height x width x channels), a caption below each."""
    _, height, width, channels = images.shape
    step_x, step_y = width + GAP, height + CAPTION + GAP
    sheet = Image.new("RGB", (COLUMNS * step_x + GAP, ROWS * step_y + GAP), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=15)
    for index, (image, caption) in enumerate(zip(images, captions, strict=True)):
        x, y = GAP + index % COLUMNS * step_x, GAP + index // COLUMNS * step_y
        sheet.paste(Image.fromarray(image[..., 0] if channels == 1 else image), (x, y))
        pen.text((x + width // 2, y + height + CAPTION // 2), caption, fill="black", font=font, anchor="mm")
    return sheet


def main(dataset: str, picture: str) -> None:
    info = shardfeed.info(dataset)
    for name, split in sorted(info.splits.items()):
        print(f"{name}: {split.num_records} images, shards: {', '.join(shard.file for shard in split.shards)}")
    images, labels = next(iter(shardfeed.load(info, "train", COLUMNS * ROWS)))
    print(f"first training batch: images {images.dtype.name} {images.shape}, labels {labels.dtype.name} {labels.shape}")
    draw(images.numpy(), [info.classes[label] for label in labels.numpy()]).save(picture)
    command = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "shardfeed"))
    print(
        f"""drawn to {picture}: look at it.

Next:
  your own photos, one folder per class {command} build --input PHOTOS --output DATASET
  what is in a dataset                  {command} inspect {dataset}
  in a training script                  train = shardfeed.load("{dataset}", "train", batch_size=32)
  on Dataflow                           ./run_dataflow.sh"""
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/demo.py DATASET PICTURE.png")
    main(sys.argv[1], sys.argv[2])
