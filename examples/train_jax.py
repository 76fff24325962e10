"""A small convolutional network in plain JAX, fed without TensorFlow.

    pip install shardfeed 'jax[cpu]'      # or jax[cuda12], jax[tpu]
    python examples/train_jax.py out/ --epochs 5

One process per host: each reads its own share, and every record is used exactly once over all of
them. A run that stopped after step 1200 goes on with --start_step 1200 and its own saved weights:
the stream is the one that it would have read.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("train_jax.py needs JAX, which is not installed here: pip install 'jax[cpu]' (or jax[cuda12], jax[tpu])")

import shardfeed

FILTERS = (16, 32, 64, 128)
Weights = list[tuple[jax.Array, jax.Array]]


def initial_weights(key: jax.Array, channels: int, classes: int) -> Weights:
    """He initialisation; one (kernel, bias) per layer, the classifier last."""
    shapes = [(3, 3, a, b) for a, b in zip((channels, *FILTERS), FILTERS, strict=False)] + [(FILTERS[-1], classes)]
    keys = jax.random.split(key, len(shapes))
    return [
        (jax.random.normal(k, shape) * np.sqrt(2 / np.prod(shape[:-1])), jnp.zeros(shape[-1]))
        for k, shape in zip(keys, shapes, strict=True)
    ]


def logits(weights: Weights, images: jax.Array) -> jax.Array:
    """``images``: uint8, as they come; they are scaled here, on the device."""
    x = images.astype(jnp.float32) / 127.5 - 1
    for kernel, bias in weights[:-1]:
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + bias)
    kernel, bias = weights[-1]
    return x.mean((1, 2)) @ kernel + bias


def loss(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jax.nn.log_softmax(logits(weights, images))[jnp.arange(len(labels)), labels]
    return -chosen.mean()


@jax.jit
def train_step(weights: Weights, momentum: Weights, images: jax.Array, labels: jax.Array, rate: float) -> Any:
    value, gradients = jax.value_and_grad(loss)(weights, images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda w, m: w - rate * m, weights, momentum), momentum, value


@jax.jit
def correct(weights: Weights, images: jax.Array, labels: jax.Array, weight: jax.Array) -> jax.Array:
    """Weighted number of right answers; rows that only fill a batch up weigh nothing."""
    return ((logits(weights, images).argmax(1) == labels) * weight).sum()


def accuracy(info: shardfeed.DatasetInfo, weights: Weights, split: str, batch_size: int) -> float:
    """Of this host's records, each counted once; on one host that is the whole split."""
    right = total = 0.0
    for images, labels, weight in shardfeed.array_batches(info, split, batch_size, training=False):
        real = weight > 0
        right += float(correct(weights, images, labels, real))
        total += real.sum()
    return right / total


def show(step: int, steps: int, loss: Any) -> None:
    """A bar, renewed every 20 steps; where the output is no terminal, a line."""
    if step % 20 and step != steps:
        return
    done = 30 * step // steps
    bar = f"{step}/{steps} [{'=' * done}{'.' * (30 - done)}] loss {float(loss):.4f}"
    print(
        f"\r{bar}" if sys.stdout.isatty() else bar, end="" if sys.stdout.isatty() and step < steps else "\n", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="folder or gs://bucket/folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=128, help="over all hosts")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start_step", type=int, default=0)
    args = parser.parse_args()

    info = shardfeed.info(args.dataset)
    weights = initial_weights(jax.random.key(args.seed), info.image_shape[2], len(info.classes))
    momentum = jax.tree.map(jnp.zeros_like, weights)
    batches = shardfeed.array_batches(
        info, "train", args.batch_size, epochs=args.epochs, seed=args.seed, start_step=args.start_step
    )
    steps = args.start_step + len(batches)
    for step, (images, labels) in enumerate(batches, args.start_step + 1):
        weights, momentum, value = train_step(weights, momentum, images, labels, args.rate)
        show(step, steps, value)
    for split in info.splits:
        print(f"accuracy on {split}: {accuracy(info, weights, split, args.batch_size):.4f}")


if __name__ == "__main__":
    main()
