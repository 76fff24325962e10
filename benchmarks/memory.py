"""Peak memory of a build by number of listed images: what one more listed image costs.

Tiny images (16x16 JPEG) hard-linked to the wanted numbers, so that listing, shuffle and parts
dominate. Prints the peak at each number and the slope between the smallest and the largest, in
bytes an image. Few images a class folder (``--folder_images``) cost more: each class is held, and
each folder is a batch of its own.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
from pathlib import Path

from common import build, where
from PIL import Image

_FOLDERS = 10
_LINKS = 10_000  # hard links a file; file systems allow 32,000 and more


def make_photos(folder: Path, images: int, folders: int) -> Path:
    """``images`` tiny JPEGs over so many class folders, with names as long as real ones."""
    for number in range(images):
        into = folder / f"class-{number % folders}"
        target = into / f"{number:032x}.jpg"
        into.mkdir(parents=True, exist_ok=True)
        if number % _LINKS == 0:
            buffer = io.BytesIO()
            Image.effect_noise((16, 16), 80).convert("RGB").save(buffer, "JPEG")
            target.write_bytes(buffer.getvalue())
            first = target
        else:
            os.link(first, target)
    return folder


def main() -> None:
    """Prints a line a size and the slope."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[12_000, 50_000, 200_000])
    parser.add_argument("--folder_images", type=int, help=f"images a class folder (default: {_FOLDERS} folders)")
    parser.add_argument("--runner", help="of Beam (default: the local build)")
    parser.add_argument("--work", type=Path, help="where to write (default: a new temporary folder)")
    args = parser.parse_args()
    print(where())
    peaks = {}
    for images in args.images:
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            folders = images // args.folder_images if args.folder_images else _FOLDERS
            photos = make_photos(Path(work) / "photos", images, folders)
            runner = ["--runner", args.runner] if args.runner else []
            ran = build(photos, Path(work) / "out", "--image_size", "16", *runner)
        peaks[images] = ran.peak_mb
        print(f"{images:,} images: peak {ran.peak_mb:.0f} MB, {ran.seconds:.1f} s", flush=True)
    low, high = min(peaks), max(peaks)
    if high > low:
        slope = (peaks[high] - peaks[low]) * 2**20 / (high - low)
        print(f"{slope:.0f} bytes a listed image between {low:,} and {high:,}")


if __name__ == "__main__":
    main()
