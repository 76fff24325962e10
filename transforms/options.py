"""What a dataset shall be: every option that can change a byte of it, and nothing else.

``BuildOptions.config()`` is what the manifest records, what the fingerprint covers, and what two
builds are compared by. So a field that is added here tells two datasets apart. Paths, threads,
runners and limits are not here on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shardfeed.transforms.images.options import ImageOptions

# Forced up by the golden digests in tests/ whenever our own code changes a byte of any output.
ENCODER_REVISION = 1

SHARD_BYTES = 100_000_000  # tf.data reads it well from object stores (TensorFlow's guide: 100-200 MB)
MIN_SHARDS = 16  # so that a small dataset still spreads over hosts and readers ...
MIN_SHARDS_IMAGES = 1_600  # ... as soon as that leaves 100 images per shard


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options that are part of the fingerprint.

    ``splits``: normalised text: a name, ``name=ratio,…`` or ``folders``. ``num_shards``: a count
    for the largest split, or (split, count) pairs; None: by ``shard_bytes``. ``class_list``: the
    locked classes in order; None: the folders, sorted.
    """

    image: ImageOptions = field(default_factory=ImageOptions)
    splits: str = "train"
    class_list: tuple[str, ...] | None = None
    num_shards: int | tuple[tuple[str, int], ...] | None = None
    shard_bytes: int = SHARD_BYTES
    seed: int = 0

    def config(self) -> dict[str, Any]:
        """The options as the manifest shows them, by flag name."""
        image, shards = self.image, self.num_shards
        return {
            "background": "#{:02x}{:02x}{:02x}".format(*image.background),
            "channels": image.channels,
            "class_list": None if self.class_list is None else list(self.class_list),
            "image_format": image.format,
            "image_size": [image.height, image.width],
            "keep_original": image.keep_original,
            "label_from": "folders",
            "num_shards": dict(shards) if isinstance(shards, tuple) else shards,
            "quality": image.quality if image.format in ("jpeg", "webp") else None,
            "resize": image.resize,
            "resizer": image.resizer,
            "seed": self.seed,
            "shard_bytes": self.shard_bytes if shards is None else None,
            "splits": self.splits,
        }
