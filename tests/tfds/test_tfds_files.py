from __future__ import annotations

import json

from shardfeed.format.manifest import ImageInfo, Shard, Split
from shardfeed.transforms.publish.tfds_files import tfds_files

IMAGE = ImageInfo(224, 224, 3, "jpeg", (0.0,) * 3, (1.0,) * 3)


def split(*records: int) -> Split:
    shards = tuple(
        Shard(f"train-{i:05d}-of-{len(records):05d}.tfrecord", n, 100 * n, "00000000", ((n, 100 * n),))
        for i, n in enumerate(records)
    )
    return Split(sum(records), 100 * sum(records), {"a": sum(records)}, shards)


def test_dataset_info_is_as_tfds_writes_it() -> None:
    splits = {"train": split(3, 4), "test": split(2)}
    files = tfds_files(classes=["a"], splits=splits, image=IMAGE)
    # It does not depend on the order of the splits.
    assert files == tfds_files(classes=["a"], splits=dict(reversed(splits.items())), image=IMAGE)
    template = "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"
    assert json.loads(files["dataset_info.json"]) == {
        "description": "Written by shardfeed; manifest.json says how.",
        "fileFormat": "tfrecord",
        "name": "shardfeed",
        "splits": [
            {"filepathTemplate": template, "name": "test", "numBytes": "200", "shardLengths": ["2"]},
            {"filepathTemplate": template, "name": "train", "numBytes": "700", "shardLengths": ["3", "4"]},
        ],
        "supervisedKeys": {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "class"}]}},
        "version": "1.0.0",
    }


def test_class_labels_are_one_a_line_in_order() -> None:
    files = tfds_files(classes=["rose", "a b", "ä"], splits={}, image=IMAGE)
    assert files["class.labels.txt"] == "rose\na b\nä\n".encode()
