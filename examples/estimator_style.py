"""For scripts that come from TPUEstimator: ``input_fn(params)`` stays, Keras' ``fit`` is the loop.

    python examples/estimator_style.py DATASET --train_steps 200

TensorFlow 2.16 removed tf.estimator, and TPUEstimator with it. The flags have kept their names. The
dataset has the splits "train" and "validation" (``shardfeed build --splits
train=0.9,validation=0.1``). For several hosts use ``shardfeed.load``, which finds out which host
this is; for a loop of your own see train_mnist.py.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from keras import layers

import shardfeed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", help="folder or gs://… of a built dataset")
    parser.add_argument("--train_batch_size", type=int, default=32, help="over all replicas")
    parser.add_argument("--eval_batch_size", type=int, default=32, help="over all replicas")
    parser.add_argument("--train_steps", type=int, default=100, help="a multiple of --iterations_per_loop")
    parser.add_argument("--iterations_per_loop", type=int, default=20, help="steps in one call")
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    args = parser.parse_args()
    if args.train_steps % args.iterations_per_loop:
        sys.exit(f"--train_steps {args.train_steps} is no multiple of --iterations_per_loop {args.iterations_per_loop}")
    return args


def model_fn(info: shardfeed.DatasetInfo) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(info.image_shape, dtype="uint8"),
            layers.Rescaling(1 / 127.5, offset=-1),
            *[layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu") for filters in (16, 32, 64)],
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(info.classes)),
        ]
    )


def main() -> None:
    args = arguments()
    info = shardfeed.info(args.data_dir)
    accelerator = shardfeed.detect_accelerator()
    print(accelerator)
    keras.utils.set_random_seed(0)
    train_input_fn = shardfeed.input_fn(info, "train")
    eval_input_fn = shardfeed.input_fn(info, "validation")
    with accelerator.scope():
        model = model_fn(info)
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],  # not metrics=: those count the rows that fill up the last batch
            steps_per_execution=args.iterations_per_loop,
        )
        model.fit(
            train_input_fn({"batch_size": args.train_batch_size}),
            steps_per_epoch=args.iterations_per_loop,
            epochs=args.train_steps // args.iterations_per_loop,
            shuffle=False,  # input_fn has shuffled
        )
        result = model.evaluate(eval_input_fn({"batch_size": args.eval_batch_size}), verbose=0, return_dict=True)
    print(f"validation: accuracy {result['accuracy']:.3f}, loss {result['loss']:.3f}")


if __name__ == "__main__":
    main()
