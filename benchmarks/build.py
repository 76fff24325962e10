"""The whole command against the limit: images per second, ratio, peak memory, shard balance.

Limit (``limit.py``, a whole command too, start-up included) and build run in turn, several rounds;
the ratio is the median of the rounds' ratios, so a machine whose speed drifts does not decide it.
Other flags are the build's: ``--duplicates off``, ``--runner DirectRunner``.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from common import build, command, link_copies, median, photos_parser, where


def main() -> None:
    """Prints a line a round and the medians."""
    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=4, help="hard-linked copies of the photos (4 = 12 k of 3 k)")
    parser.add_argument("--rounds", type=int, default=5)
    args, flags = parser.parse_known_args()
    print(where())
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        photos = link_copies(args.photos, Path(work) / "photos", args.copies)
        images = sum(1 for _ in photos.rglob("*.jpg"))
        ratios, peaks = [], []
        for turn in range(args.rounds + 1):
            loop = command("benchmarks/limit.py", "--photos", str(photos)).seconds
            ran = build(photos, Path(work) / "out", *flags)
            split = json.loads(ran.output.splitlines()[-1])["splits"]["train"]
            balance = split["max_bytes"] * split["shards"] / split["bytes"]
            print(
                f"{'warm-up' if not turn else turn}: limit {images / loop:,.0f} img/s, build {images / ran.seconds:,.0f} img/s, "
                f"ratio {loop / ran.seconds:.3f}, cpu {ran.cpu:.1f} s, peak {ran.peak_mb:.0f} MB, max/mean {balance:.4f}",
                flush=True,
            )
            if turn:
                ratios.append(loop / ran.seconds)
                peaks.append(ran.peak_mb)
        print(
            f"{images:,} photos: ratio {median(ratios):.3f} of the limit, peak {median(peaks):.0f} MB, max/mean {balance:.4f}"
        )


if __name__ == "__main__":
    main()
