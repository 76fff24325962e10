"""Near-duplicates: recall per kind of change, false pairs, the time of pairing, and the rivals' recall.

``recall``: photos are changed, written as files and hashed; a changed photo is found if it is a pair
with its original. ``pairs``: uniform hashes with blank pages among them. ``cost``: what the hashes add
to an image. ``rivals``: pairs, time and recall of pdqhash, imagehash and cleanvision beside ours, on
the same files; one that is not installed is left out, and reported.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import numpy as np
from common import median, where
from PIL import Image, ImageEnhance

from shardfeed.transforms.duplicates.find import Pictures, group
from shardfeed.transforms.duplicates.near_pairs import CONFIRMED, NEAR, popcount
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.pixels.perceptual_hash import Samples
from shardfeed.transforms.images.process import process_image, take_samples
from shardfeed.transforms.output.part_rows import HASH_KNOWN, MARK_KNOWN


def changed(photo: Image.Image) -> Iterator[tuple[str, bytes]]:
    """(kind of change, file) of a photo."""
    yield "original", jpeg(photo, 95)
    for percent in (50, 67, 80, 125, 150):
        size = photo.width * percent // 100, photo.height * percent // 100
        yield f"scale {percent} %", jpeg(photo.resize(size, Image.Resampling.LANCZOS), 90)
    for quality in (30, 50, 75):
        yield f"quality {quality}", jpeg(photo, quality)
    yield "gray", jpeg(photo.convert("L"), 90)
    yield "PNG", png(photo)
    for percent in (80, 90, 110, 115, 120):
        yield f"brightness {percent} %", jpeg(ImageEnhance.Brightness(photo).enhance(percent / 100), 90)
    for percent in (1, 2, 5, 10):
        x, y = photo.width * percent // 200, photo.height * percent // 200
        yield f"crop {percent} %", jpeg(photo.crop((x, y, photo.width - x, photo.height - y)), 90)


def jpeg(photo: Image.Image, quality: int) -> bytes:
    """A JPEG file."""
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=quality)
    return file.getvalue()


def png(photo: Image.Image) -> bytes:
    """A PNG file."""
    file = io.BytesIO()
    photo.save(file, "PNG", compress_level=1)
    return file.getvalue()


def hashes_of(files: list[bytes], size: int = 224) -> tuple[np.ndarray, np.ndarray]:
    """Fingerprints of files, of 64 and of 256 bits."""
    samples = Samples(len(files))
    for data in files:
        process_image(data, ImageOptions(size, size), samples=samples)
        samples.count += 1
    return samples.hashes()[:2]


def recall(photos: list[Path]) -> None:
    """Prints the share of changed photos that are a pair with their original."""
    found: dict[str, list[tuple[int, int]]] = {}
    for path in photos:
        kinds, files = zip(*changed(Image.open(path).convert("RGB")), strict=True)
        near, sure = hashes_of(list(files))
        for kind, bits, more in zip(
            kinds, popcount(near ^ near[0]), popcount(sure ^ sure[0]).sum(1, dtype=np.int64), strict=True
        ):
            found.setdefault(kind, []).append((int(bits), int(more)))
    for kind, pairs in found.items():
        bits, more = np.array(pairs).T
        both = ((bits <= NEAR) & (more <= CONFIRMED)).mean()
        print(
            f"{kind:<17} recall {both:.3f}; within {NEAR} of 64 {(bits <= NEAR).mean():.3f}; "
            f"of 256: 98 % within {np.percentile(more, 98):.0f}, all within {more.max()}"
        )


def cost(photos: list[Path], rounds: int) -> None:
    """Prints the processor's time of an image without and with its fingerprints."""
    files = [path.read_bytes() for path in photos]
    options, samples = ImageOptions(), Samples(16)

    def plain() -> None:
        for data in files:
            process_image(data, options)

    def hashed() -> None:
        for data in files:
            process_image(data, options, samples=samples)
            samples.count += 1
            if samples.count == 16:
                samples.hashes()
                samples.count = 0

    ratios = []
    for turn in range(rounds):
        order = (plain, hashed) if turn % 2 else (hashed, plain)
        taken = {work: cpu(work) for work in order}
        ratios.append(taken[hashed] / taken[plain])
        print(
            f"{turn}: {taken[plain] / len(files) * 1e6:.0f} us, with fingerprints {taken[hashed] / len(files) * 1e6:.0f} us"
        )
    print(f"an image takes {median(ratios):.3f} times as long, {min(ratios):.3f} to {max(ratios):.3f}")


def cpu(work: Callable[[], None]) -> float:
    """Seconds of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def pairs(count: int, blank: str) -> None:
    """Prints time and memory of pairing ``count`` uniform hashes, a tenth of them blank pages.

    ``blank``: "equal", or "noisy": with three wrong bits each.
    """
    random_bits = np.random.default_rng(1)
    pictures = Pictures.of(count)
    pictures.known[:] = HASH_KNOWN | MARK_KNOWN
    pictures.hashes[:] = random_bits.integers(0, 2**64, count, np.uint64)
    pictures.files[:] = random_bits.integers(0, 2**58, count, np.uint64)
    for column in range(4):
        pictures.marks[:, column] = random_bits.integers(0, 2**64, count, np.uint64)
    pages = count // 10
    pictures.hashes[:pages], pictures.marks[:pages] = pictures.hashes[0], pictures.marks[0]
    for _ in range(3 if blank == "noisy" else 0):
        pictures.hashes[:pages] ^= np.uint64(1) << random_bits.integers(0, 64, pages, np.uint64)
    began, start = time.time(), time.process_time()
    names, crowded = group(pictures)
    seconds, busy = time.time() - began, time.process_time() - start
    sizes = np.bincount(names)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count:,} hashes, blank pages {blank}: {seconds:.0f} s, {busy:.0f} s of CPU, peak {peak:,.0f} MB; "
        f"{int((sizes > 1).sum())} groups, the largest of {sizes.max():,}; {crowded:,} in crowded buckets"
    )


Finder = Callable[[list[Path]], np.ndarray]
"""From files to bool[n, n]: which are pairs."""


def rivals(photos: list[Path], sample: list[Path]) -> None:
    """Prints pairs among ``photos``, the processor's time per photo, and the recall of changed ``sample``."""
    finders = {"shardfeed": by_shardfeed}
    for name, finder in (("pdqhash", by_pdq), ("imagehash", by_imagehash), ("cleanvision", by_cleanvision)):
        try:
            print(f"{name} {metadata.version(name)}")
            finders[name] = finder
        except metadata.PackageNotFoundError:
            print(f"{name} is not installed: it is left out")
    for name, finder in finders.items():
        start = time.process_time()
        found = np.argwhere(np.triu(finder(photos), 1))
        each = (time.process_time() - start) / len(photos) * 1e6
        print(f"{name}: {each:,.0f} us of CPU per photo, pairs among {len(photos):,} photos: {len(found)}")
        for one, two in found[:20]:
            print(f"  {photos[one].parent.name}/{photos[one].name} {photos[two].parent.name}/{photos[two].name}")
    rows: dict[str, list[np.ndarray]] = {name: [] for name in finders}
    for photo in sample:
        kinds, files = zip(*changed(Image.open(photo).convert("RGB")), strict=True)
        with tempfile.TemporaryDirectory() as folder:
            paths = [
                Path(folder, f"{number:02}.{'png' if kind == 'PNG' else 'jpg'}") for number, kind in enumerate(kinds)
            ]
            for path, data in zip(paths, files, strict=True):
                path.write_bytes(data)
            for name, finder in finders.items():
                rows[name].append(finder(paths)[0])
    for number, kind in enumerate(kinds):
        print(f"{kind:<17} " + "; ".join(f"{name} {np.mean(rows[name], axis=0)[number]:.3f}" for name in finders))


def by_shardfeed(files: list[Path]) -> np.ndarray:
    """Decodes and hashes only; a build uses the pixels that it decodes anyway."""
    samples, options = Samples(len(files)), ImageOptions()
    for path in files:
        take_samples(path.read_bytes(), options, samples, nullcontext)
        samples.count += 1
    near, sure, _ = samples.hashes()
    bits = np.unpackbits(near[:, None].view(np.uint8), axis=1), np.unpackbits(sure.view(np.uint8), axis=1)
    return within(bits[0], NEAR) & within(bits[1], CONFIRMED)


def by_pdq(files: list[Path]) -> np.ndarray:
    """PDQ; within 31 of 256 bits, as its authors advise."""
    import pdqhash

    return within(np.array([pdqhash.compute(np.asarray(Image.open(path).convert("RGB")))[0] for path in files]), 31)


def by_imagehash(files: list[Path]) -> np.ndarray:
    """Its pHash of 64 bits; within 4."""
    import imagehash

    return within(np.array([imagehash.phash(Image.open(path)).hash.ravel() for path in files]), 4)


def by_cleanvision(files: list[Path]) -> np.ndarray:
    """Its two searches for duplicates, as they come: equal pixels, and equal pHash."""
    from cleanvision import Imagelab

    lab = Imagelab(filepaths=[str(path) for path in files], verbose=False)
    lab.find_issues({"exact_duplicates": {}, "near_duplicates": {}}, n_jobs=1, verbose=False)
    number, pairs = {str(path): at for at, path in enumerate(files)}, np.eye(len(files), dtype=bool)
    for kind in ("exact_duplicates", "near_duplicates"):
        for names in lab.info[kind]["sets"]:
            some = [number[name] for name in names]
            pairs[np.ix_(some, some)] = True
    return pairs


def within(bits: np.ndarray, limit: int) -> np.ndarray:
    """Which of the hashes bool[n, bits] differ in at most ``limit`` bits: bool[n, n]."""
    signs = np.where(bits, np.float32(1), np.float32(-1))
    return bits.shape[1] - signs @ signs.T <= 2 * limit


def main() -> None:
    """Runs one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("recall", "cost", "pairs", "rivals"), required=True)
    parser.add_argument("--photos", type=Path, help="folder of JPEG photos, one folder a class")
    parser.add_argument("--sample", type=int, default=300, help="photos")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=10_000_000, help="hashes")
    parser.add_argument("--blank", choices=("equal", "noisy"), default="equal")
    args = parser.parse_args()
    print(where())
    if args.part == "pairs":
        pairs(args.count, args.blank)
        return
    photos = sorted(args.photos.rglob("*.jpg"))
    sample = random.Random(1).sample(photos, min(args.sample, len(photos)))
    if args.part == "recall":
        recall(sample)
    elif args.part == "rivals":
        rivals(photos, sample)
    else:
        cost(sample, args.rounds)


if __name__ == "__main__":
    main()
