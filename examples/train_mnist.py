"""28 × 28 gray images, and three ways to train: ``fit``, a custom loop, several steps per call.

    python examples/train_mnist.py                         # scikit-learn's 1,797 digits
    python examples/train_mnist.py --input mnist_png/      # folders 0 to 9 of images
    python examples/train_mnist.py --mode steps --steps 50

``custom`` and ``steps`` are loops over ``strategy.run`` and need Keras on TensorFlow; ``fit`` runs
on JAX as well.
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
    parser.add_argument("--input", help="folder of images, one folder per digit; default: scikit-learn's digits")
    parser.add_argument("--dataset", default="mnist-dataset", help="folder or gs://… of the dataset; built if absent")
    parser.add_argument("--channels", choices=["gray", "rgb"], default="gray")
    parser.add_argument("--mode", choices=["fit", "custom", "steps"], default="fit")
    parser.add_argument("--steps", type=int, default=10, help="--mode steps: steps per call")
    parser.add_argument("--batch_size", type=int, default=64, help="over all devices")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def draw_digits(folder: Path) -> Path:
    """Scikit-learn's digits as PNG files, FOLDER/7/0042.png, if they are not there yet."""
    if folder.exists():
        return folder
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    digits, unfinished = load_digits(), folder.with_name(f"{folder.name}-unfinished")
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        image = Image.fromarray((pixels * 255 / 16).astype(np.uint8)).resize((28, 28), Image.Resampling.BICUBIC)
        path = unfinished / str(digit) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return unfinished.rename(folder)


def build(args: argparse.Namespace) -> shardfeed.DatasetInfo:
    """The dataset in --dataset. Where it is complete already, the command says so and ends."""
    images = args.input or draw_digits(Path(f"{args.dataset}-images"))
    command = [sys.executable, "-m", "shardfeed", "build", "--input", str(images), "--output", args.dataset]
    flags = ["--image_size", "28", "--image_format", "png", "--channels", args.channels]
    code = subprocess.run([*command, *flags, "--splits", "train=0.85,test=0.15"]).returncode
    if code:
        sys.exit(code)
    return shardfeed.info(args.dataset)


def model_for(info: shardfeed.DatasetInfo) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(info.image_shape, dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(len(info.classes)),
        ]
    )


def loop(
    model: keras.Model, info: shardfeed.DatasetInfo, accelerator: shardfeed.Accelerator, args: argparse.Namespace
) -> None:
    """A loop of our own: ``steps`` batches per call, each shared by the replicas."""
    import tensorflow as tf

    strategy, steps = accelerator.strategy, args.steps if args.mode == "steps" else 1
    batches = iter(shardfeed.distribute(strategy, info, "train", args.batch_size, seed=args.seed))
    optimizer, losses = model.optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            # The optimizer adds up the replicas' gradients, so the loss is divided by the global
            # batch.
            loss = losses(labels, model(images, training=True)) / args.batch_size
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    @tf.function
    def run_steps(batches: tf.data.Iterator) -> tf.Tensor:
        total = tf.constant(0.0)
        for _ in tf.range(steps):
            total += strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=next(batches)), axis=None)
        return total / steps

    calls = max(1, info.steps_per_epoch("train", args.batch_size) // steps)
    with accelerator.scope():
        optimizer.build(model.trainable_variables)
    for epoch in range(args.epochs):
        print(f"Epoch {epoch + 1}/{args.epochs}")
        bar = keras.utils.Progbar(calls * steps)
        for call in range(calls):
            bar.update((call + 1) * steps, [("loss", float(run_steps(batches)))])


def main() -> None:
    args = arguments()
    if args.mode != "fit" and keras.config.backend() != "tensorflow":
        sys.exit(f"--mode {args.mode} needs KERAS_BACKEND=tensorflow; on {keras.config.backend()} use --mode fit")
    info = build(args)
    print(info)
    accelerator = shardfeed.detect_accelerator()
    print(accelerator)
    keras.utils.set_random_seed(args.seed)
    train = shardfeed.load(info, "train", args.batch_size, seed=args.seed)
    with accelerator.scope():
        model = model_for(info)
        model.compile(
            optimizer="adam",
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],  # not metrics=: those count the rows that fill up the last batch
            **shardfeed.compile_args(train),
        )
    if args.mode == "fit":  # Keras' own loop; compile_args makes it run many steps in one call
        model.fit(train, epochs=args.epochs, shuffle=False, **shardfeed.fit_args(train))
    else:
        loop(model, info, accelerator, args)
    result = model.evaluate(shardfeed.load(info, "test", args.batch_size), verbose=0, return_dict=True)
    print(f"test: accuracy {result['accuracy']:.3f}, loss {result['loss']:.3f}")


if __name__ == "__main__":
    main()
