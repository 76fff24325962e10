"""What Keras runs on, and which devices JAX and this machine have."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from shardfeed.errors import UsageError, clip

_PCI = Path("/sys/bus/pci/devices")
_GOOGLE = "0x1ae0"  # PCI vendor
# PCI devices: TPU v2/v3, v4, v5p, v5e, v6e, 7x (jax/_src/hardware_utils.py).
_TPU_DEVICES = frozenset({"0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"})
# the first whose distribution says whether it cuts the data again (auto_shard_dataset)
_KERAS = (3, 11)


def keras_backend() -> str | None:
    """What Keras runs on, or would if it were imported, as far as that is said; None if not."""
    keras = sys.modules.get("keras")
    return os.environ.get("KERAS_BACKEND") if keras is None else keras.config.backend()


def check_keras(keras: Any) -> None:
    """Raises UsageError if this Keras is too old for several devices of JAX."""
    if tuple(map(int, keras.__version__.split(".")[:2])) < _KERAS:
        needed = ".".join(map(str, _KERAS))
        raise UsageError(
            f"Keras {clip(keras.__version__)} cannot train on several JAX devices without cutting the data again: expected "
            f"Keras {needed} or newer. Run pip install 'keras>={needed}'."
        )


def jax_replicas(distribution: Any) -> int:
    """Parts into which Keras' ``distribution`` on JAX cuts a batch."""
    mesh = distribution.device_mesh
    return int(mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)])


def tpu_chips() -> int:
    """TPU chips in this machine."""
    try:
        devices = list(_PCI.iterdir())
    except OSError:  # no PCI bus, or no Linux
        return 0
    return sum(_word(at / "vendor") == _GOOGLE and _word(at / "device") in _TPU_DEVICES for at in devices)


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the device has just gone, or the file is not ours to read
        return ""
