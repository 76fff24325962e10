"""``tune_gcs``: makes TensorFlow read gs:// in pieces as large as our blocks, not of 64 MiB.

TensorFlow fetches from a bucket in pieces of ``GCS_READ_CACHE_BLOCK_SIZE_MB``, 64 by default,
whatever buffer a dataset asks for. ``load`` opens a shard for each block of about 1 MB, so by
default each of them fetches up to 64 MiB. Measured on one shard of 99 MB from a server on the same
machine, 98 requests each time: one pass asked for 4,349 MB and took 1,586 MB of memory with the
default, 1,499 MB and 20 MB with 16 MiB, 202 MB and less than 1 MB with 2 MiB.

``array_batches`` asks for exactly its blocks and needs none of this.
"""

from __future__ import annotations

import os
import sys

from shardfeed.arguments import positive
from shardfeed.errors import UsageError, clip
from shardfeed.warning import warn

VARIABLE = "GCS_READ_CACHE_BLOCK_SIZE_MB"
BLOCK_MB = 2  # MiB; a block of ours closes at 1,000,000 bytes, with the record that crosses them


def tune_gcs(block_mb: int = BLOCK_MB) -> int:
    """Set the size in MiB of TensorFlow's reads from gs://. Call it before TensorFlow is imported.

        import shardfeed
        shardfeed.tune_gcs()
        import tensorflow as tf

    TensorFlow reads the variable once, when it is imported. Setting it outside has the same
    effect: ``GCS_READ_CACHE_BLOCK_SIZE_MB=2 python train.py``. A value that is set already is
    kept.

    Returns:
        The size that is in force.

    Raises:
        UsageError: TensorFlow is imported already, so that nothing would change.
    """
    size = positive("block_mb", block_mb)
    if VARIABLE not in os.environ:
        if "tensorflow" in sys.modules:
            raise UsageError(
                "tune_gcs() came too late: TensorFlow is imported already and reads its settings only then. "
                + _remedy(size)
            )
        os.environ[VARIABLE] = str(size)
    value = os.environ[VARIABLE]
    if not value.isdecimal() or not int(value):
        raise UsageError(
            f"{VARIABLE}={clip(value)} in the environment: expected a number of MiB above 0, for example {size}."
        )
    return int(value)


def check_tuned() -> None:
    """Warn if TensorFlow reads from gs:// as it does by default.

    Setting the variable here would be too late.
    """
    if VARIABLE not in os.environ:
        warn(
            "TensorFlow was imported without shardfeed.tune_gcs(): for each block of about 1 MB that load wants it fetches up to "
            f"64 MiB from gs://. {_remedy(BLOCK_MB)}"
        )


def _remedy(size: int) -> str:
    return (
        f"Call it above `import tensorflow` and `import keras`, or start with: {VARIABLE}={size} python "
        f"{os.path.basename(sys.argv[0])}"
    )
