"""A file of a dataset that may not be read is named as that; whoever hears of damage deletes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.cli.main import main
from shardfeed.errors import UsageError
from tests.kit.datasets import upload, write_dataset
from tests.kit.indexes import without_indexes
from tests.kit.servers.strict_gcs import StrictGCS

READS: dict[str, Callable[[str, Path], object]] = {
    "train-00000-of-00003.parquet": lambda url, to: main(["find", url, "--where", "1"]),
    "train-00001-of-00003.parquet": lambda url, to: main(["verify", url, "--deep"]),
    "train.index": lambda url, to: main(["verify", url, "--deep"]),
    "train.classes": lambda url, to: dict(shardfeed.info(url).splits["train[:9]"].class_counts),
    "run.json": lambda url, to: main(["report", url, "--output", str(to)]),
}


@pytest.mark.parametrize("name", READS)
def test_a_file_that_may_not_be_read_is_not_called_damaged(
    strict_gcs: StrictGCS, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write_dataset(tmp_path / "dataset")
    url = upload(tmp_path / "dataset", "gs://bucket/flowers")
    strict_gcs.inject("status", "get", f"flowers/{name}", status=403, times=None)

    try:
        assert READS[name](url, tmp_path / "report.html") == 2
        said = capsys.readouterr().err.removeprefix("shardfeed: ")
    except UsageError as error:
        said = str(error)

    assert said.startswith(f"permission storage.objects.get is missing on bucket bucket for {url}/{name} (403: ")


def test_neither_is_a_text_index(strict_gcs: StrictGCS, tmp_path: Path) -> None:
    write_dataset(tmp_path)
    without_indexes(tmp_path)
    url = upload(tmp_path, "gs://bucket/flowers")
    name = "train-00000-of-00003.tfrecord.idx"
    strict_gcs.inject("status", "get", f"flowers/{name}", status=403, times=None)
    with pytest.warns(UserWarning, match="has no index to map"):
        ds = shardfeed.records(url, "train")

    with pytest.raises(UsageError, match=f"^permission storage.objects.get is missing .* for {url}/{name} "):
        ds[0]
