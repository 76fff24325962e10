"""TensorFlow's own reads from gs://, on a server that counts them: what ``tune_gcs`` changes, in
requests and bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import shardfeed
from shardfeed.transforms import stores
from tests.arrays.google_over_tls import google_over_tls
from tests.kit.datasets import write_dataset
from tests.kit.servers.strict_gcs import StrictGCS

READ = """
import sys, shardfeed
if sys.argv[1] == "tuned":
    shardfeed.tune_gcs()
import tensorflow
batches = shardfeed.load("gs://bucket/flowers", "train", 25, epochs=1)
print(sum(len(y) for x, y in batches))
"""
BLOCKS, RECORDS = 12, 300  # of 40 kB in one shard of 12 MB


@dataclass(frozen=True)
class Pass:
    """One pass over a shard: requests by kind, and the sizes of its reads in bytes."""

    kinds: Counter[str]
    ranges: set[int]


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pass]:
    folder = tmp_path_factory.mktemp("certificates")
    written = write_dataset(
        tmp_path_factory.mktemp("dataset"), splits={"train": RECORDS}, image_format="raw", size=(100, 133),
        shards=1, block_records=RECORDS // BLOCKS,
    )  # fmt: skip
    out = {}
    with StrictGCS() as server:
        for file in written.path.iterdir():
            server.objects.put("bucket", f"flowers/{file.name}", file.read_bytes())
        address = server.url.removeprefix("http://").split(":")
        with google_over_tls((address[0], int(address[1])), folder) as google:
            env = {**os.environ, **google, "STORAGE_EMULATOR_HOST": server.url}
            env.pop("GCS_READ_CACHE_BLOCK_SIZE_MB", None)
            for name in ("default", "tuned"):
                server.log.clear()
                done = subprocess.run([sys.executable, "-c", READ, name], env=env, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                assert int(done.stdout.splitlines()[-1]) == RECORDS
                shard = [request for request in server.log if request.name.endswith(".tfrecord")]
                headers = [{key.lower(): value for key, value in request.headers.items()} for request in shard]
                bounds = [header["range"].removeprefix("bytes=").split("-") for header in headers if "range" in header]
                assert ("shardfeed.tune_gcs()" in done.stderr) == (name == "default"), done.stderr
                sizes = {int(last) - int(first) + 1 for first, last in bounds}
                out[name] = Pass(Counter(request.kind for request in shard), sizes)
    return out


def test_each_block_is_one_request_and_nothing_is_listed(passes: dict[str, Pass]) -> None:
    assert passes["tuned"].kinds == {"stat": 1, "get": BLOCKS}


def test_a_request_asks_for_2_mib_instead_of_64(passes: dict[str, Pass]) -> None:
    assert passes["default"].ranges == {64 << 20}
    assert passes["tuned"].ranges == {2 << 20}


UNTUNED = (
    "TensorFlow was imported without shardfeed.tune_gcs(): for each block of about 1 MB that load wants it fetches up to 64 MiB "
    "from gs://. Call it above `import tensorflow` and `import keras`, or start with: GCS_READ_CACHE_BLOCK_SIZE_MB=2 python "
    "train.py"
)


@pytest.mark.parametrize(
    ("cache", "variable", "expected"),
    [(None, None, [UNTUNED]), (None, "64", []), ("copies", None, [])],
    ids=["untuned", "set by the user", "a local copy"],
)
def test_load_warns_once_where_tensorflow_would_fetch_too_much(
    gcs_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str | None, variable: str | None,
    expected: list[str],
) -> None:  # fmt: skip
    store = stores.open_output(f"{gcs_bucket}/flowers")
    for file in write_dataset(tmp_path / "dataset").path.iterdir():
        store.create(file.name, file.read_bytes())
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py"])
    monkeypatch.delenv("GCS_READ_CACHE_BLOCK_SIZE_MB", raising=False)
    if variable is not None:
        monkeypatch.setenv("GCS_READ_CACHE_BLOCK_SIZE_MB", variable)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shardfeed.load(store.url, "train", 8, cache=cache and tmp_path / cache)

    assert [str(one.message) for one in caught] == expected


@pytest.mark.parametrize(("outside", "in_force"), [("", 2), ("16", 16)], ids=["not set", "set from outside"])
def test_it_sets_the_variable_once_and_imports_no_tensorflow(outside: str, in_force: int) -> None:
    code = (
        "import os, sys, shardfeed\n"
        "if not os.environ['GCS_READ_CACHE_BLOCK_SIZE_MB']: del os.environ['GCS_READ_CACHE_BLOCK_SIZE_MB']\n"
        "print(shardfeed.tune_gcs(), shardfeed.tune_gcs(4), os.environ['GCS_READ_CACHE_BLOCK_SIZE_MB'])\n"
        "print('tensorflow' in sys.modules)"
    )
    env = {**os.environ, "GCS_READ_CACHE_BLOCK_SIZE_MB": outside}

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == (f"{in_force} {in_force} {in_force}\nFalse\n", "")


def test_after_tensorflow_was_imported_it_says_how_to_start_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    monkeypatch.delenv("GCS_READ_CACHE_BLOCK_SIZE_MB", raising=False)
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py"])

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.tune_gcs()

    assert str(found.value) == (
        "tune_gcs() came too late: TensorFlow is imported already and reads its settings only then. Call it above "
        "`import tensorflow` and `import keras`, or start with: GCS_READ_CACHE_BLOCK_SIZE_MB=2 python train.py"
    )
    assert "GCS_READ_CACHE_BLOCK_SIZE_MB" not in os.environ


@pytest.mark.parametrize(
    ("value", "block_mb", "message"),
    [
        (None, 0, "block_mb=0: expected an integer of at least 1."),
        (
            "2MB",
            2,
            "GCS_READ_CACHE_BLOCK_SIZE_MB=2MB in the environment: expected a number of MiB above 0, for example 2.",
        ),
        ("0", 2, "GCS_READ_CACHE_BLOCK_SIZE_MB=0 in the environment: expected a number of MiB above 0, for example 2."),
    ],
    ids=["argument", "text", "zero"],
)
def test_values_that_cannot_be(monkeypatch: pytest.MonkeyPatch, value: str | None, block_mb: int, message: str) -> None:
    monkeypatch.delenv("GCS_READ_CACHE_BLOCK_SIZE_MB", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    if value is not None:
        monkeypatch.setenv("GCS_READ_CACHE_BLOCK_SIZE_MB", value)

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.tune_gcs(block_mb)

    assert str(found.value) == message
