"""32 × 32 images, stored as raw pixels and trained on in large batches: 8 replicas × 128.

    python examples/train_cifar10.py --input cifar10_png/        # folders airplane, automobile, …
    python examples/train_cifar10.py                             # ten kinds of drawn patterns

At this size a JPEG's header is a good part of the file and decoding costs more than reading, so the
pixels are stored as they are. Crop and flip run on the device.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers
from PIL import Image

import shardfeed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", help="folder of images, one folder per class; default: drawn patterns")
    parser.add_argument("--images", type=int, default=6_000, help="number of drawn patterns")
    parser.add_argument("--dataset", default="cifar10-dataset", help="folder or gs://… of the dataset; built if absent")
    parser.add_argument("--batch_size", type=int, default=8 * 128, help="over all devices")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def draw_patterns(folder: Path, images: int) -> Path:
    """Stripes of ten directions in random colours as PNG files, if they are not there yet."""
    if folder.exists():
        return folder
    random, unfinished = np.random.default_rng(0), folder.with_name(f"{folder.name}-unfinished")
    y, x = np.mgrid[:32, :32]
    for number in range(images):
        angle = np.pi * (number % 10) / 10
        wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * random.uniform(0.7, 0.9) + random.uniform(0, 2 * np.pi))
        dark, light = random.uniform(0, 100, 3), random.uniform(130, 255, 3)
        pixels = dark + (light - dark) * (wave[..., None] + 1) / 2 + random.normal(0, 10, (32, 32, 3))
        path = unfinished / f"stripes_{number % 10 * 18:03}" / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return unfinished.rename(folder)


def build(args: argparse.Namespace) -> shardfeed.DatasetInfo:
    """The dataset in --dataset. Where it is complete already, the command says so and ends."""
    images = args.input or draw_patterns(Path(f"{args.dataset}-images"), args.images)
    command = [sys.executable, "-m", "shardfeed", "build", "--input", str(images), "--output", args.dataset]
    flags = ["--image_size", "32", "--image_format", "raw", "--splits", "train=0.85,test=0.15"]
    code = subprocess.run([*command, *flags]).returncode
    if code:
        sys.exit(code)
    return shardfeed.info(args.dataset)


def model_for(info: shardfeed.DatasetInfo) -> keras.Model:
    """A small convolutional network behind the augmentation: random shifts of the padded image."""
    images = keras.Input(info.image_shape, dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    x = layers.RandomTranslation(4 / 32, 4 / 32, fill_mode="constant")(x)
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(images, layers.Dense(len(info.classes))(layers.GlobalAveragePooling2D()(x)))


def main() -> None:
    args = arguments()
    info = build(args)
    print(info)
    accelerator = shardfeed.detect_accelerator()
    print(accelerator)
    keras.utils.set_random_seed(args.seed)
    with accelerator.scope():
        # 50,000 images: 154 MB
        train = shardfeed.load(info, "train", args.batch_size, seed=args.seed, cache="decoded")
        test = shardfeed.load(info, "test", args.batch_size)
        model = model_for(info)
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],  # not metrics=: those count the rows that fill up the last batch
            **shardfeed.compile_args(train),
        )
        model.fit(
            train,
            epochs=args.epochs,
            shuffle=False,  # load has shuffled
            **shardfeed.fit_args(train),
        )
        result = model.evaluate(test, verbose=0, return_dict=True)
    print(f"test: accuracy {result['accuracy']:.3f}, loss {result['loss']:.3f}")


if __name__ == "__main__":
    main()
