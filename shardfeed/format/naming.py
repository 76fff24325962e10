"""Every name of a published file. Some names below ``_parts/`` are made where they are written.

Names are made of split names, numbers and hashes, never of keys: keys are data.
"""

from __future__ import annotations

import re

MANIFEST = "manifest.json"
RUN = "run.json"
CLASSES = "classes.txt"
DATASET_INFO = "dataset_info.json"
FEATURES = "features.json"
CLASS_LABELS = "class.labels.txt"
DUPLICATES = "duplicates.jsonl"
UNMATCHED = "unmatched.jsonl"
PARTS = "_parts"
CLAIM = "_parts/CLAIM"

FINGERPRINT = re.compile("[0-9a-f]{32}")
SPLIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SHARD = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})-(\d{5,})-of-(\d{5,})\.(tfrecord(\.idx)?|parquet)")
_INDEX = re.compile(rf"{SPLIT_NAME.pattern}\.(index|classes)")
_REJECTS = re.compile(r"rejects-\d{5,}-of-\d{5,}\.jsonl")
# The claim, outcomes, temporary files and the folder of a fingerprint. Nothing else below _parts/
# is ever touched.
_WORK = re.compile(rf"_parts/(?:CLAIM|outcome-[^/]+\.json|tmp/[^/]+|{FINGERPRINT.pattern}/.+)")
_FIXED = frozenset({MANIFEST, RUN, CLASSES, DATASET_INFO, FEATURES, CLASS_LABELS, DUPLICATES, UNMATCHED})


def shard_name(split: str, index: int, count: int) -> str:
    """``train-00000-of-00016.tfrecord``."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def index_name(shard: str) -> str:
    """Name of a shard's index, which has one line ``offset size`` per record."""
    return shard + ".idx"


def table_name(shard: str) -> str:
    """Name of a shard's record table: ``train-00000-of-00016.parquet``."""
    return shard.removesuffix(".tfrecord") + ".parquet"


def split_index_name(split: str) -> str:
    """``train.index``: where each record of a split begins, to be mapped."""
    return f"{split}.index"


def split_classes_name(split: str) -> str:
    """``train.classes``: the class of each record of a split, to be mapped."""
    return f"{split}.classes"


def rejects_name(index: int, count: int) -> str:
    """``rejects-00000-of-00002.jsonl``."""
    return f"rejects-{index:05d}-of-{count:05d}.jsonl"


def is_ours(name: str) -> bool:
    """True for a name below an output that our format makes, work in progress included."""
    return is_published_name(name) or bool(_WORK.fullmatch(name))


def is_published_name(name: str) -> bool:
    """True for a name that a file of a finished dataset can have.

    Whether the file is ours, only a claim or a manifest in the same folder can tell.
    """
    return name in _FIXED or any(pattern.fullmatch(name) for pattern in (_SHARD, _INDEX, _REJECTS))


def is_shard(name: str) -> bool:
    """True for a shard, its index or its table."""
    return bool(_SHARD.fullmatch(name))


def is_table(name: str) -> bool:
    """True for the record table of a shard."""
    return is_shard(name) and name.endswith(".parquet")


def is_split_index(name: str) -> bool:
    """True for one of the two files of a split's mapped index."""
    return bool(_INDEX.fullmatch(name))


def is_rejects(name: str) -> bool:
    """True for a file of rejects."""
    return bool(_REJECTS.fullmatch(name))


def work_folder(fingerprint: str) -> str:
    """Folder of one build's parts."""
    return f"{PARTS}/{fingerprint}"


def sidecar_name(fingerprint: str, split: str, part: int) -> str:
    """A part's commit point."""
    return f"{work_folder(fingerprint)}/{split}/{part:05d}.json"


def part_name(fingerprint: str, split: str, part: int, crc32c: int, size: int) -> str:
    """A part's records. The name contains their checksum and size."""
    return f"{work_folder(fingerprint)}/{split}/{part:05d}-{crc32c:08x}-{size}"


def index_piece_name(fingerprint: str, of: str, column: str) -> str:
    """A piece of a split's mapped index: a ``column`` of a shard, or the header of a file."""
    return f"{work_folder(fingerprint)}/index/{of}.{column}"


def groups_name(fingerprint: str) -> str:
    """Which records belong to which group of duplicates."""
    return f"{work_folder(fingerprint)}/duplicates.groups"


def outcome_name(run_id: str) -> str:
    """A run that failed for a reason that the user can change writes the reason here."""
    return f"{PARTS}/outcome-{run_id}.json"
