"""The sample of files that are skipped by their suffix, and what its first bytes say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from shardfeed.transforms.elements import Totals
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.inputs.skipped import MOST_FILES, SkippedFile, SkippedSample, note_of_skipped
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import add_totals, count_batch
from shardfeed.transforms.sources.local import LocalSource
from tests.kit.images import photo, write


def _sample(keys: list[str]) -> tuple[SkippedFile, ...]:
    sample = SkippedSample()
    for key in keys:
        sample.add((0, key, 1, 1))
    return sample.files()


def test_a_sample_of_samples_is_that_of_all_files_in_any_order() -> None:
    keys = [f"cat/{number}.{suffix}" for number in range(50) for suffix in range(100)]
    whole = _sample(keys)
    assert len({key.rpartition(".")[2] for _, key, _, _ in whole}) == len(whole) == MOST_FILES
    random.Random(0).shuffle(keys)
    pieces = [Totals(skipped_sample=_sample(keys[at : at + 77])) for at in range(0, len(keys), 77)]
    assert add_totals(pieces).skipped_sample == whole


def test_names_that_hold_an_image_suffix_come_first() -> None:
    likely = ["cat/p.JPG?w=200", "cat/p.jpg.1", "cat/p.png.part"]
    others = [f"cat/p.{number}" for number in range(2, 100)]
    assert {key for _, key, _, _ in _sample([*others, *likely])[:3]} == set(likely)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write(tmp_path, "cat/1.jpg", photo(1))
    write(tmp_path, "cat/p.jpg?w=200", photo(2))
    for number in range(30):
        write(tmp_path, f"cat/p.{number}", b"text")
    write(tmp_path, "cat/empty.dat", b"")
    write(tmp_path, b"cat/\xff.dat", photo(3))
    return tmp_path


def test_the_first_bytes_of_at_most_sixteen_files_are_read(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    whole = LocalSource.read_range

    def noting(*args: Any) -> Any:
        read.append(args[-1])
        return whole(*args)

    monkeypatch.setattr(LocalSource, "read_range", noting)
    roots = (InputRoot(str(photos)),)
    totals = add_totals(count_batch(batch, BuildOptions()) for batch in list_all(roots) if batch.fault)
    assert note_of_skipped(roots, totals.skipped_sample).startswith(
        "of 16 skipped files that were looked at, one per suffix, 1 holds an image: cat/p.jpg?w=200. Rename"
    )
    assert len(read) == MOST_FILES
    assert max(read) <= 4096


def test_files_that_are_gone_are_not_counted(photos: Path) -> None:
    roots = (InputRoot(str(photos)),)
    files = [(0, key, 1, 1) for key in ("cat/gone.jpg.1", "cat/p.jpg?w=200")]  # the second has another size and version
    assert note_of_skipped(roots, files) == ""
