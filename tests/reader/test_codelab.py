"""The reading idiom of the widespread TFRecord tutorials finds its names and types in our shards."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from tests.kit.datasets import write_dataset


def test_a_parser_with_fixed_and_variable_length_features_over_listed_files_reads_our_shards(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, splits={"train": 37})

    def read_tfrecord(example: tf.Tensor) -> tuple[tf.Tensor, ...]:
        features = tf.io.parse_single_example(
            example,
            {
                "image": tf.io.FixedLenFeature([], tf.string),
                "class": tf.io.FixedLenFeature([], tf.int64),
                "label": tf.io.VarLenFeature(tf.string),
                "size": tf.io.FixedLenFeature([2], tf.int64),
            },
        )
        image = tf.io.decode_jpeg(features["image"], channels=3)
        image = tf.reshape(image, [*[8, 12], 3])
        label = tf.sparse.to_dense(features["label"])
        return image, features["class"], label, features["size"]

    files = tf.data.Dataset.list_files(str(tmp_path / "*.tfrecord"))
    unordered = tf.data.Options()
    unordered.deterministic = False
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=4).with_options(unordered).map(read_tfrecord)

    found = [(int(c), *label.numpy(), *size.numpy().tolist()) for _, c, label, size in dataset]

    names = written.manifest.classes
    assert sorted(found) == sorted((r.label, names[r.label].encode(), 8, 12) for r in written.records["train"])


def test_the_label_is_one_value_for_parsers_that_say_so(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, splits={"train": 5}, shards=1)
    feature = {"label": tf.io.FixedLenFeature([], tf.string)}

    records = tf.data.TFRecordDataset(str(tmp_path / "train-00000-of-00001.tfrecord"))
    found = [tf.io.parse_single_example(record, feature)["label"].numpy() for record in records]

    assert found == [written.manifest.classes[record.label].encode() for record in written.records["train"]]
