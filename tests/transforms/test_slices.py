"""An image becomes a record with its columns and sums, a reject, or a fault of the store."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from shardfeed.format.hashing import key_hash
from shardfeed.storage import Stat, StorageError, UnreadableError
from shardfeed.transforms.elements import ImageRef
from shardfeed.transforms.encode import slices
from shardfeed.transforms.encode.slices import cut_slices, shown_key
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.sources.base import ChecksumError
from shardfeed.transforms.sources.local import LocalSource
from tests.transforms.conftest import OPTIONS, PLAN, Folder


def test_a_record_holds_the_columns_of_the_format(folder: Folder) -> None:
    refs = [folder.add(b"dog/deep/1.png")]

    result = folder.encode(refs, replace(OPTIONS, image=ImageOptions(height=4, width=6, format="raw")))
    (example,) = folder.examples(result)
    assert {name: value for name, value in example.items() if name != "image"} == {
        "class": [1],
        "label": [b"dog"],
        "size": [4, 6],
        "key": [b"dog/deep/1.png"],
    }
    assert [len(value) for value in example["image"]] == [4 * 6 * 3]  # type: ignore[arg-type]


def test_statistics_are_exact_sums_over_stored_pixels(folder: Folder) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(9)]

    result = folder.encode(refs, replace(OPTIONS, image=ImageOptions(height=8, width=8, format="raw")))

    images = [np.frombuffer(example["image"][0], np.uint8) for example in folder.examples(result)]  # type: ignore[arg-type]
    pixels = np.stack(images).reshape(-1, 3).astype(int)
    assert result.stats == (len(pixels), tuple(pixels.sum(0)), tuple((pixels**2).sum(0)))


def test_only_a_sample_of_a_large_dataset_is_summed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [folder.add(b"cat/%d.png" % i) for i in range(30)]
    monkeypatch.setattr(slices, "STATS_IMAGES", 10)

    result = folder.encode(refs, plan=replace(PLAN, candidates=30))

    sampled = sum(key_hash(ref.key) * 30 < 10 << 128 for ref in refs)
    assert 0 < sampled < 30
    assert result.stats is not None
    assert result.stats[0] == sampled * 64


def test_what_cannot_be_used_is_rejected_with_a_short_printable_reason(folder: Folder) -> None:
    refs = [folder.add(b"cat/%s.png" % name) for name in (b"grown", b"gone", b"touched", b"caf\xe9")]
    refs += [folder.add(b"cat/empty.png", b""), folder.add(b"dog/\\xe9.png")]
    large = folder.add(b"cat/large.png")
    refs.append(large._replace(stat=Stat((64 << 20) + 1, 1)))
    refs.append(folder.add(b"cat/odd.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20))
    with open(folder.root / "cat" / "grown.png", "ab") as file:
        file.write(b"x")
    for name in ("gone", "empty", "large"):  # the last two would be CHANGED if they were read
        (folder.root / "cat" / f"{name}.png").unlink()
    os.utime(folder.root / "cat" / "touched.png", ns=(1, 1))

    assert folder.encode(refs).records == 1  # dog/\\xe9.png is UTF-8

    *rejects, (key, _, detail) = sorted(folder.rejects(), key=lambda reject: (reject[0] == "cat/odd.png", reject))
    assert rejects == [
        ("cat/caf\\xe9.png", "NAME", "the file name is not UTF-8; rename it"),
        ("cat/empty.png", "EMPTY", "zero bytes"),
        ("cat/gone.png", "CHANGED", "cat/gone.png is gone since the listing"),
        ("cat/grown.png", "CHANGED", "cat/grown.png changed since the listing"),
        ("cat/large.png", "TOO_LARGE", "67108865 bytes; at most 67108864 (--max_file_bytes)"),
        ("cat/touched.png", "CHANGED", "cat/touched.png changed since the listing"),
    ]
    assert (key, detail.isprintable(), len(detail) <= 200) == ("cat/odd.png", True, True)
    assert shown_key("käse/\\x.png".encode()) == "käse/\\x.png"


def test_bytes_that_are_not_the_listed_ones_are_rejected(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        raise ChecksumError("crc32c 00000001 where 00000002 was listed, 3 times")

    ref = folder.add(b"cat/1.png")
    monkeypatch.setattr(LocalSource, "read", read)

    folder.encode([ref])
    assert folder.rejects() == [("cat/1.png", "CHECKSUM", "crc32c 00000001 where 00000002 was listed, 3 times")]


@pytest.mark.parametrize("error", [StorageError("down"), UnreadableError("no permission")], ids=["store", "permission"])
def test_a_fault_of_the_store_is_not_the_images_fault(
    either: Folder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def read(self: LocalSource, key: bytes, stat: Stat) -> bytes:
        raise error

    ref = either.add(b"cat/1.png")
    monkeypatch.setattr(LocalSource, "read", read)

    with pytest.raises(type(error)):
        either.encode([ref])
    assert list(either.store.list()) == []


def test_a_slice_spreads_a_part_over_the_threads_and_is_bounded_in_images_and_in_bytes() -> None:
    def sizes(*mib: int, threads: int = 2) -> list[list[int]]:
        refs = [ImageRef(0, b"k", Stat(size << 20, 0)) for size in mib]
        return [[ref.stat.size >> 20 for ref in piece] for piece in cut_slices(refs, threads, 8 << 20)]

    assert [len(piece) for piece in sizes(*[0] * 9)] == [4, 4, 1]
    assert [len(piece) for piece in sizes(*[0] * 48)] == [12, 12, 12, 12]
    assert [len(piece) for piece in sizes(*[0] * 48, threads=8)] == [4] * 12
    assert [len(piece) for piece in sizes(*[0] * 300)] == [16] * 18 + [12]
    assert [len(piece) for piece in sizes(*[0] * 100, threads=1)] == [64, 36]
    assert sizes(3, 3, 3, 3) == [[3, 3, 3], [3]]
    assert sizes(8, 1, 64, 1) == [[8], [1, 64], [1]]
    assert sizes() == []
