"""A stored dataset: the format, exact on every machine, which later readers must still read.

Its images are bitmaps of the stored size, kept as raw pixels, and the versions of codecs are fixed
words. So nothing in it depends on a codec: framing, hashes, packing, blocks, indexes, rejects and
the manifest alone decide its bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.cli.main import main
from shardfeed.format.manifest import SCHEMA_VERSION
from shardfeed.format.record_table import table_value
from shardfeed.transforms.elements import PartFile
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.options import ENCODER_REVISION
from shardfeed.transforms.publish.composing import blocks_of
from shardfeed.transforms.publish.packing import pack
from tests.kit import makers as m
from tests.kit.sources import ROOT

HERE = Path(__file__).parent
DATASETS = {1: HERE / "v1", 2: HERE / "v2"}  # by schema_version; a build writes the last
PHOTOS = HERE / "photos.json"
REMEDY = (
    "The format changed. If that is meant, raise schema_version or ENCODER_REVISION, keep the old folder as a witness, and store "
    "a new one: python -m tests.golden.test_golden_dataset FOLDER"
)


def write_photos(folder: Path) -> None:
    for number in range(60):
        path = folder / ("a b", "daisy", "größe")[number % 3] / f"{number:02}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = bytes((number * 7 + place * (number + 3)) % 251 for place in range(8 * 12 * 3))
        path.write_bytes(m.bmp(12, 8, 24, 0, b"", pixels) if number != 41 else b"BM" + bytes(9))
        os.utime(path, ns=(0, 1_700_000_000_000_000_000 + number))


def build(folder: Path, out: Path, patch: pytest.MonkeyPatch) -> None:
    versions = "shardfeed.transforms.images.versions"
    patch.setattr(f"{versions}._usual", lambda: (("cykooz_resizer", "fixed"), ("zlib", "fixed")))
    patch.setattr(f"{versions}._OF_FORMAT", {})
    flags = ["--image_size", "8x12", "--image_format", "raw", "--num_shards", "3", "--threads", "1"]
    flags += ["--splits", "train=0.75,validation=0.25"]
    write_photos(folder)
    assert main(["build", "--input", str(folder), "--output", str(out), *flags]) == 0
    (out / "run.json").unlink()


def contents(folder: Path) -> dict[str, bytes | tuple[int, int]]:
    """Every file, of tables the value: their bytes are pyarrow's."""
    return {
        path.name: table_value(io.BytesIO(path.read_bytes())) if path.suffix == ".parquet" else path.read_bytes()
        for path in folder.iterdir()
    }


def test_a_build_writes_the_stored_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "photos", tmp_path / "out", monkeypatch)
    assert contents(tmp_path / "out") == contents(DATASETS[SCHEMA_VERSION]), REMEDY


@pytest.mark.parametrize("version", DATASETS)
def test_a_stored_dataset_is_in_order_and_each_reader_reads_it(version: int) -> None:
    stored = DATASETS[version]
    assert shardfeed.info(stored).manifest.schema_version == version
    report = shardfeed.verify(stored, deep=True)
    assert (report.findings, report.records) == ((), 59)
    for split in ("train", "validation"):
        ours = shardfeed.array_batches(stored, split, 1, training=False)
        theirs = shardfeed.load(stored, split, 1, training=False)
        for one, other in zip(ours, theirs.as_numpy_iterator(), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_parts_are_packed_and_blocks_close_as_they_did() -> None:
    """Parts of 0.1 to 6 MB, some of the same size, make these shards and these blocks."""
    sizes = [100_000 * (1 + number * number % 59) for number in range(100)]
    parts = [PartFile(number, size, size // 1000, number) for number, size in enumerate(sizes)]
    packed = [{"parts": [part.part for part in shard], "blocks": blocks_of(shard)} for shard in pack(parts, 7)]
    assert json.loads(json.dumps(packed)) == json.loads((HERE / "packing.json").read_text()), REMEDY


def test_a_build_of_photos_writes_the_bytes_that_it_wrote_with_these_codecs(tmp_path: Path) -> None:
    """Digests of all files; of tables those in the manifest. The table has a row per encoder revision and set of codecs."""
    key, found = f"revision {ENCODER_REVISION}: {_codecs()}", digests_of_photos(tmp_path)
    table = json.loads(PHOTOS.read_text())
    assert key in table, (
        f"No digests for {key}. If revision or codecs are new, add to {PHOTOS.name}: {json.dumps(found)}"
    )
    assert found == table[key], REMEDY


def _codecs() -> str:
    """The codecs in the manifest of a build with the usual options."""
    return ", ".join(f"{name} {version}" for name, version in sorted(codec_versions(ImageOptions()).items()))


def digests_of_photos(folder: Path) -> dict[str, str]:
    for number, photo in enumerate(sorted((ROOT / "examples" / "sample_photos").rglob("*.jpg"))[::5]):
        path = folder / "photos" / photo.parent.name / photo.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo.read_bytes())
        os.utime(path, ns=(0, 1_700_000_000_000_000_000 + number))
    out = folder / "out"
    flags = ["--image_size", "96", "--num_shards", "2", "--splits", "train=0.8,validation=0.2"]
    assert main(["build", "--input", str(folder / "photos"), "--output", str(out), *flags]) == 0
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.iterdir()
        if path.name != "run.json" and path.suffix != ".parquet"
    }


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        build(Path(sys.argv[1], "photos"), Path(sys.argv[1], "out"), patch)
