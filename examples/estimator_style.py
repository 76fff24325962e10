"""For scripts that come from TPUEstimator: its ``input_fn(params)`` still fits, the loop around it is plain now.

    python examples/estimator_style.py DATASET --train_steps 200

TPUEstimator itself is gone: TensorFlow 2.16 removed tf.estimator and tf.compat.v1.estimator with it. What it did is short
in TensorFlow 2: a train step and an evaluation step under a strategy, called as often as the steps say. Its flags have
kept their names. The dataset has the splits "train" and "validation" (``shardfeed build --splits train=0.9,validation=0.1``).
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from keras import layers

import shardfeed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", help="folder or gs://… of a built dataset")
    parser.add_argument("--train_batch_size", type=int, default=32, help="over all replicas")
    parser.add_argument("--eval_batch_size", type=int, default=32, help="over all replicas")
    parser.add_argument("--train_steps", type=int, default=100)
    parser.add_argument("--iterations_per_loop", type=int, default=20, help="steps in one call")
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    return parser.parse_args()


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


def feed(strategy: Any, input_fn: Any, batch_size: int) -> Any:
    """What TPUEstimator did with an ``input_fn``: one call a host, then a part of its batch for each replica."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        sys.exit(f"a batch of {batch_size} does not divide by {replicas} replicas")

    def of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
        params = {"batch_size": batch_size // context.num_input_pipelines, "context": context}
        return input_fn(params).rebatch(batch_size // replicas, drop_remainder=True)

    return strategy.distribute_datasets_from_function(of_host)


def main() -> None:
    args = arguments()
    info = shardfeed.info(args.data_dir)
    accelerator = shardfeed.detect_accelerator()
    print(accelerator)
    strategy = accelerator.strategy
    keras.utils.set_random_seed(0)
    with accelerator.scope():
        model = model_fn(info)
        optimizer = keras.optimizers.Adam(args.learning_rate)
        optimizer.build(model.trainable_variables)

    def row_losses(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(row_losses(labels, model(images, training=True))) / args.train_batch_size
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def eval_step(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        logits = model(images, training=False)
        hits = tf.cast(tf.argmax(logits, axis=1, output_type=labels.dtype) == labels, tf.float32)
        return tf.stack(
            [tf.reduce_sum(weights * value) for value in (row_losses(labels, logits), hits, tf.ones_like(hits))]
        )

    def over_replicas(step: Any, batch: Any) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=batch), axis=None)

    @tf.function
    def train(batches: tf.data.Iterator, steps: tf.Tensor) -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(steps):
            loss = over_replicas(train_step, next(batches))
        return loss

    @tf.function
    def evaluate(batches: tf.data.Iterator, steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros(3)
        for _ in tf.range(steps):
            total += over_replicas(eval_step, next(batches))
        return total

    batches = iter(feed(strategy, shardfeed.input_fn(info, "train"), args.train_batch_size))
    bar = keras.utils.Progbar(args.train_steps, stateful_metrics=["loss"])
    for done in range(0, args.train_steps, args.iterations_per_loop):
        steps = min(args.iterations_per_loop, args.train_steps - done)
        bar.update(done + steps, [("loss", float(train(batches, tf.constant(steps))))])

    # Every record once: padding weighs nothing, so the sums divided by the sum of the weights are exact.
    steps = -(-info.splits["validation"].num_records // args.eval_batch_size)
    batches = iter(feed(strategy, shardfeed.input_fn(info, "validation"), args.eval_batch_size))
    loss, hits, weight = evaluate(batches, tf.constant(steps)).numpy()
    print(f"validation: accuracy {hits / weight:.3f}, loss {loss / weight:.3f}")


if __name__ == "__main__":
    main()
