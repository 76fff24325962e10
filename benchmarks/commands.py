"""What a person waits for: ``--help``, a rerun of a finished build, and how much a rerun after a
kill does again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, build, command, link_copies, median, photos_parser, where


def killed_at(photos: Path, output: Path, share: float, parts: int) -> int:
    """Starts a build, kills it when ``share`` of its parts are committed; the number that were."""
    args = ["-m", "shardfeed", "build", "--input", str(photos), "--output", str(output), "--resize", "squash"]
    process = subprocess.Popen(
        [sys.executable, *args, "--quality", "90", "--num_shards", "16", "--json"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None:
        done = len(list(output.glob("_parts/*/train/*.json")))
        if done >= share * parts:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return len(list(output.glob("_parts/*/train/*.json")))
        time.sleep(0.005)
    raise SystemExit("the build ended before it could be killed: give more --copies")


def main() -> None:
    """Prints a line a figure."""
    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(where())
    bare = median([command("-c", "pass").seconds for _ in range(args.rounds)])
    helps = median([command("-m", "shardfeed", "--help").seconds for _ in range(args.rounds)])
    print(f"--help: {helps:.3f} s, {helps / bare:.1f} x an empty Python")
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        photos, output = link_copies(args.photos, Path(work) / "photos", args.copies), Path(work) / "out"
        images = sum(1 for _ in photos.rglob("*.jpg"))
        whole = build(photos, output)
        again = [
            command("-m", "shardfeed", "build", "--input", str(photos), "--output", str(output), "--resize", "squash",
                    "--quality", "90", "--num_shards", "16").seconds
            for _ in range(args.rounds)
        ]  # fmt: skip
        print(
            f"rerun of a finished build of {images:,}: {median(again):.2f} s, {median(again) / whole.seconds:.3f} of the build"
        )
        output = Path(work) / "killed"
        done = killed_at(photos, output, 0.5, 256)
        ran = command("-m", "shardfeed", "build", "--input", str(photos), "--output", str(output), "--resize", "squash",
                      "--quality", "90", "--num_shards", "16", "--json")  # fmt: skip
        encoded = json.loads(ran.output.splitlines()[-1])["encoded_in_this_run"]
        print(
            f"rerun after a kill at {done} of 256 parts: {encoded:,} of {images:,} encoded again = {encoded / images:.3f}"
        )


if __name__ == "__main__":
    main()
