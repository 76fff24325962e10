"""The file of a training's state: its address, its lock, what it holds, and damage."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.resuming.state_file import LocalStateFile, TrainingState, open_state_file
from tests.kit.sources import ROOT


@pytest.mark.parametrize("address", ["", 7, "ftp://there/run"])
def test_what_is_no_address_is_refused(address: Any) -> None:
    with pytest.raises(shardfeed.UsageError, match=re.escape(str(address) or "''")):
        open_state_file(address)


def test_a_folder_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("shardfeed.resuming.state_file.fcntl.flock", no_locks)
    with pytest.raises(
        shardfeed.UsageError, match=r"cannot be locked \(No locks available\).*Choose a folder on a disk"
    ):
        LocalStateFile(str(tmp_path))


def test_a_full_disk_names_the_address_and_leaves_the_state_before(tmp_path: Path) -> None:
    file = LocalStateFile(str(tmp_path))
    file.write(TrainingState({"step": 1}, {}))
    (tmp_path / "training.state.tmp").symlink_to("/dev/full")

    with pytest.raises(shardfeed.StorageError, match=f"^resume={tmp_path}: .*No space left on device.*Free some space"):
        file.write(TrainingState({"step": 2}, {}))
    found = file.read()
    file.close()
    assert found is not None
    assert found.facts == {"step": 1}


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = f"import os\nfrom shardfeed.resuming.state_file import LocalStateFile\nfile = LocalStateFile({str(tmp_path)!r})\n"
    subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)"], cwd=ROOT, check=False)

    LocalStateFile(str(tmp_path)).close()


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: b"", lambda data: data[:9] + b"!" + data[10:]])
def test_a_damaged_state_is_named(tmp_path: Path, spoil: Any) -> None:
    file, path = LocalStateFile(str(tmp_path)), tmp_path / "training.state"
    file.write(TrainingState({"step": 1}, {"a": np.arange(6)}))
    file.close()
    path.write_bytes(spoil(path.read_bytes()))

    with pytest.raises(shardfeed.DatasetError, match=r"training\.state is no state of a training, or is damaged"):
        LocalStateFile(str(tmp_path), writes=False).read()


def test_every_type_of_a_variable_comes_back(tmp_path: Path) -> None:
    import ml_dtypes

    arrays = {
        name: np.arange(6).astype(kind).reshape(shape)
        for name, kind, shape in [
            ("a", np.float32, (2, 3)), ("b", ml_dtypes.bfloat16, (6,)), ("c", np.uint32, (3, 2)), ("d", np.int64, (1, 6)),
        ]
    } | {"scalar": np.float16(3), "empty": np.zeros((0, 4))}  # fmt: skip
    file = LocalStateFile(str(tmp_path))
    file.write(TrainingState({"epoch": 1}, arrays))
    found = file.read()
    file.close()

    assert found is not None
    assert found.facts == {"epoch": 1}
    assert list(found.arrays) == list(arrays)
    for name, array in arrays.items():
        assert (found.arrays[name].dtype, found.arrays[name].shape) == (array.dtype, array.shape)
        assert found.arrays[name].tobytes() == array.tobytes()


def test_in_a_bucket_the_newer_run_goes_on_and_the_older_is_refused(gcs_bucket: str) -> None:
    url = f"{gcs_bucket}/run7"
    older = open_state_file(url)
    assert older.read() is None
    older.write(TrainingState({"step": 1}, {}))
    older.write(TrainingState({"step": 2}, {}))

    newer = open_state_file(url)
    found = newer.read()
    assert found is not None
    assert found.facts == {"step": 2}
    newer.write(found)

    with pytest.raises(shardfeed.UsageError, match=f"^resume={url}: another run has begun to train with this address"):
        older.write(TrainingState({"step": 3}, {}))
    newer.write(TrainingState({"step": 4}, {}))
