"""Shard balance on hard inputs, and bytes through the shuffle: the job's own functions on made-up
records, no images.

Records get keys, are assigned to parts by hash and packed by exact bytes. Prints max/mean for equal
sizes, for one class that holds 90 %, and for sizes spread log-uniformly over 1 : 1,000 (median of
five seeds), each with its bound, mean + largest part.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from common import median, where

from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, PartFile, pack_ref, unpack_keys
from shardfeed.transforms.planning.assign import split_by_part
from shardfeed.transforms.planning.plan import PARTS_A_SHARD
from shardfeed.transforms.publish.packing import pack

_SHARDS = 16


def _refs(images: int, seed: int, skewed: bool) -> bytes:
    random_ = random.Random(seed)
    refs = []
    for number in range(images):
        label = 0 if skewed and random_.random() < 0.9 else random_.randrange(10)
        key = f"class-{label}/{random_.getrandbits(128):032x}.jpg".encode()
        refs.append(pack_ref(ImageRef(0, key, Stat(28_000 + number % 977, 1_700_000_000_000_000_000 + number))))
    return b"".join(refs)


def max_to_mean(refs: bytes, size_of: Callable[[bytes], int]) -> tuple[float, float]:
    """(max/mean shard size, (mean + largest part)/mean): the figure and its bound."""
    parts = []
    for part, packed in split_by_part(refs, PARTS_A_SHARD * _SHARDS, 0).items():
        sizes = [size_of(key) for key, _ in unpack_keys(packed)]
        parts.append(PartFile(part, sum(sizes), len(sizes), 0))
    shards = [sum(part.bytes for part in shard) for shard in pack(parts, _SHARDS)]
    mean = sum(shards) / len(shards)
    return max(shards) / mean, 1 + max(part.bytes for part in parts) / mean


def main() -> None:
    """Prints a line an input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--photos", help="not used: the records are made; taken so that all benchmarks are called alike"
    )
    parser.add_argument("--images", type=int, nargs="+", default=[3_068, 12_272])
    args = parser.parse_args()
    print(where())
    for images in args.images:
        for name, skewed, spread in (
            ("usual", False, 1),
            ("one class holds 90 %", True, 1),
            ("sizes 1 : 1,000", False, 1_000),
        ):
            rows = []
            for seed in range(5):
                sizes = random.Random(seed + 100)

                def size_of(_key: bytes, sizes: random.Random = sizes, spread: int = spread) -> int:
                    return int(1_000 * spread ** sizes.random()) if spread > 1 else sizes.randrange(9_000, 22_000)

                rows.append(max_to_mean(_refs(images, seed, skewed), size_of))
            ratio, bound = (median([row[column] for row in rows]) for column in (0, 1))
            print(f"{images:,} records, {name}: max/mean {ratio:.4f}, bound {bound:.4f}")


if __name__ == "__main__":
    main()
