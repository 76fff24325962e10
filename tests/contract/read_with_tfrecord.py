"""Prints, as JSON, what the package tfrecord reads of the given shards in two halves each, seeking
by their index files.

A program of its own: the package describes tf.train.Example to protobuf once more, which
TensorFlow's process refuses.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from tfrecord.reader import tfrecord_loader  # type: ignore[import-untyped]


def read(shard: str, part: int) -> list[Any]:
    rows = tfrecord_loader(shard, f"{shard}.idx", {"image": "byte", "class": "int", "key": "byte"}, shard=(part, 2))
    return [
        [bytes(row["key"]).decode(), int(row["class"][0]), hashlib.sha256(bytes(row["image"])).hexdigest()]
        for row in rows
    ]


print(json.dumps([row for shard in sys.argv[1:] for part in (0, 1) for row in read(shard, part)]))
