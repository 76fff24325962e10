"""A folder of photos to a trained classifier: build, train a small network, evaluate it exactly.

    python examples/train_flowers.py --input photos/ --dataset out/
    KERAS_BACKEND=jax python examples/train_flowers.py --mixed_precision    # needs jax too

``photos/`` holds one folder per class (without --input: the 200 photos beside this file, far too
few to learn much from). Photos are decoded on the host; flips, shifts and scaling happen on the
device, in the model's first layers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from keras import layers

import shardfeed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", default=str(Path(__file__).with_name("sample_photos")), help="one folder per class")
    parser.add_argument("--dataset", default="flowers-dataset", help="folder or gs://… of the dataset; built if absent")
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--batch_size", type=int, default=32, help="over all devices")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument(
        "--mixed_precision",
        nargs="?",
        const="bfloat16",
        default="float32",
        choices=["float32", "bfloat16", "float16"],
        help="compute in bfloat16, or in the type that is named",
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def build(args: argparse.Namespace) -> shardfeed.DatasetInfo:
    """The dataset in --dataset. Where it is complete already, the command says so and ends."""
    command = [sys.executable, "-m", "shardfeed", "build", "--input", args.input, "--output", args.dataset]
    flags = ["--image_size", str(args.image_size), "--splits", "train=0.8,validation=0.2"]
    code = subprocess.run([*command, *flags]).returncode
    if code:
        sys.exit(code)
    return shardfeed.info(args.dataset)


def model_for(info: shardfeed.DatasetInfo) -> keras.Model:
    """Four halvings of the image, then an average. The sums of the last layer need float32."""
    images = keras.Input(info.image_shape, dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.RandomTranslation(0.1, 0.1)(x)
    for filters in (16, 32, 64, 128):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(images, layers.Dense(len(info.classes), dtype="float32")(x))


def main() -> None:
    args = arguments()
    info = build(args)
    print(info)
    accelerator = shardfeed.detect_accelerator()
    print(accelerator)
    keras.utils.set_random_seed(args.seed)
    if args.mixed_precision != "float32":
        keras.mixed_precision.set_global_policy(f"mixed_{args.mixed_precision}")

    with accelerator.scope():
        train = shardfeed.load(info, "train", args.batch_size, seed=args.seed)
        validation = shardfeed.load(info, "validation", args.batch_size)
        model = model_for(info)
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],  # not metrics=: those count the rows that fill up the last batch
            **shardfeed.compile_args(train),
        )
        model.fit(
            train,
            validation_data=validation,
            epochs=args.epochs,
            shuffle=False,  # load has shuffled
            class_weight=info.class_weight("train"),
            **shardfeed.fit_args(train),
        )
        result = model.evaluate(validation, verbose=0, return_dict=True)
    print(f"validation: accuracy {result['accuracy']:.3f}, loss {result['loss']:.3f}")


if __name__ == "__main__":
    main()
