"""What a dataset shall be: every option that can change a byte of it, and nothing else.

``BuildOptions.config()`` is what the manifest records, what the fingerprint covers, and what two
builds are compared by. So a field that is added here tells two datasets apart. Paths, threads,
runners, and how many rejects or unmatched rows are allowed, are not here on purpose.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from shardfeed.format.columns import Column
from shardfeed.transforms.images.options import ImageOptions

# Forced up by the golden digests in tests/ whenever our own code changes a byte of any output.
ENCODER_REVISION = 1

LabelFrom = Literal["folders", "regex", "table", "none"]

SHARD_BYTES = 100_000_000  # tf.data reads it well from object stores (TensorFlow's guide: 100-200 MB)
MIN_SHARDS = 16  # so that a small dataset still spreads over hosts and readers ...
MIN_SHARDS_IMAGES = 1_600  # ... as soon as that leaves 100 images per shard


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options that are part of the fingerprint.

    ``splits``: normalised text: a name, ``name=ratio,…``, ``folders`` or ``column:NAME``.
    ``group_by``: ``column:NAME`` or an expression; None: no groups. ``num_shards``: a count
    for the largest split, or (split, count) pairs; None: by ``shard_bytes``. ``class_list``: the
    locked classes in order; None: the names that are found, sorted. ``label_depth``: number of the
    folder that is the class, behind the split's folder. ``label_regex``: its group ``label`` is the
    class. ``multi_label``: the table's labels are lists. ``class_map``: (name that is found, class
    or "" to drop it), in the order of the names. ``columns``: of the metadata table that
    records hold, in the byte order of their names. ``duplicates``: whether images are
    fingerprinted and compared.
    """

    image: ImageOptions = field(default_factory=ImageOptions)
    splits: str = "train"
    group_by: str | None = None
    stratify: bool = False
    label_from: LabelFrom = "folders"
    label_depth: int = 1
    label_regex: str | None = None
    class_map: tuple[tuple[str, str], ...] | None = None
    multi_label: bool = False
    columns: tuple[Column, ...] = ()
    class_list: tuple[str, ...] | None = None
    num_shards: int | tuple[tuple[str, int], ...] | None = None
    shard_bytes: int = SHARD_BYTES
    seed: int = 0
    duplicates: bool = True

    @property
    def label_kind(self) -> str:
        """How many labels a record has, as the manifest says it."""
        if self.label_from == "none":
            return "none"
        return "multi" if self.multi_label else "single"

    def config(self) -> dict[str, Any]:
        """The options as the manifest shows them, by flag name.

        Formats and limits of sources are there if they are not the default ones.
        """
        image, shards = self.image, self.num_shards
        usual, limits = ImageOptions(), asdict(image.limits)
        given: dict[str, Any] = {  # those that are not at their default
            "class_map": dict(self.class_map or ()),
            "columns": [column.to_raw() for column in self.columns],
            "formats": list(image.formats) if image.formats != usual.formats else None,
            "group_by": self.group_by,
            "label_depth": self.label_depth if self.label_depth != 1 else None,
            "label_regex": self.label_regex,
            "multi_label": self.multi_label,
            "stratify": self.stratify,
            **{name: limits[name] for name, value in asdict(usual.limits).items() if limits[name] != value},
        }
        return {
            **{name: value for name, value in given.items() if value},
            "background": "#{:02x}{:02x}{:02x}".format(*image.background),
            "channels": image.channels,
            "class_list": None if self.class_list is None else list(self.class_list),
            "image_format": image.format,
            "image_size": [image.height, image.width],
            "keep_original": image.keep_original,
            "label_from": self.label_from,
            "num_shards": dict(shards) if isinstance(shards, tuple) else shards,
            "quality": image.quality if image.format in ("jpeg", "webp") else None,
            "resize": image.resize,
            "resizer": image.resizer,
            "seed": self.seed,
            "shard_bytes": self.shard_bytes if shards is None else None,
            "splits": self.splits,
            **({} if self.duplicates else {"duplicates": "off"}),
        }
