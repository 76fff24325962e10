"""Bytes through the shuffle, measured in the engine: what every GroupByKey of a real build is
handed, summed.

The in-process engine gives each grouping its elements encoded; their lengths are counted there, all
groupings of the whole graph together (references, part sizes, shard plans, counts), and divided by
the images.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from apache_beam.runners.portability.fn_api_runner import execution
from common import link_copies, photos_parser, where

from shardfeed.cli.main import main as shardfeed


def main() -> None:
    """Prints the bytes an image and the largest grouping's share."""
    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=1)
    args = parser.parse_args()
    print(where())
    seen: dict[int, int] = {}
    append = execution.GroupingBuffer.append

    def counted(self: Any, elements_data: bytes) -> None:
        seen[id(self)] = seen.get(id(self), 0) + len(elements_data)
        append(self, elements_data)

    execution.GroupingBuffer.append = counted
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        photos = link_copies(args.photos, Path(work) / "photos", args.copies)
        images = sum(1 for _ in photos.rglob("*.jpg"))
        with contextlib.redirect_stdout(io.StringIO()):
            code = shardfeed(
                ["build", "--input", str(photos), "--output", str(Path(work) / "out"), "--resize", "squash"]
            )
    if code:
        raise SystemExit(code)
    whole, largest = sum(seen.values()) / images, max(seen.values()) / images
    print(
        f"{images:,} images: {whole:.0f} bytes an image through {len(seen)} groupings, {largest:.0f} through the largest"
    )


if __name__ == "__main__":
    main()
