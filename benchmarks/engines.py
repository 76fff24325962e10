"""The same build on engines against the local build: seconds, and their ratio.

Prism with a worker thread in the launcher, Prism with a worker process, and Beam's own job service
with two worker processes. All run in turn, several rounds; a ratio is the median of the rounds'
ratios. Start-up of the command is in the figure; that of the engine's servers, which outlive a job,
is not. Beside it the memory of our largest process: launcher, helper or worker; what the engine's
own processes take is the engine's. Needs Prism: ``make engines``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import ROOT, Watched, build, link_copies, median, photos_parser, where

from shardfeed.processes import descendants
from tests.kit.beam_worker import Worker, make_worker
from tests.kit.servers import engines as servers

GOALS = {"Prism, thread": 1.8, "Prism, worker": 1.8, "two workers": 1.3}  # 1.35 of Beam's in-process engine for Prism


def main() -> None:
    """Prints a line a round and the medians."""
    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=4, help="hard-linked copies of the photos (4 = 12 k of 3 k)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    programs = sorted((ROOT / ".engines").glob("prism-*"))
    if not programs:
        raise SystemExit("There is no Prism in .engines/. Build it: tools/engines.sh")
    print(where())
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        photos = link_copies(args.photos, Path(work) / "photos", args.copies)
        worker = make_worker(Path(work))
        ratios: dict[str, list[float]] = {name: [] for name in GOALS}
        for turn in range(args.rounds + 1):
            with Watched(_largest_mb) as largest:
                here = build(photos, Path(work) / "out").seconds
            line = [f"local {here:.1f} s, {largest.peak_mb:.0f} MB"]
            for name in GOALS:
                with Watched(_largest_mb) as largest:
                    seconds = _on(name, programs[-1], worker, photos, Path(work))
                line.append(f"{name} {seconds:.1f} s ({seconds / here:.2f}), {largest.peak_mb:.0f} MB")
                if turn:
                    ratios[name].append(seconds / here)
            print(f"{turn or 'warm-up'}: {'; '.join(line)}", flush=True)
        images = sum(1 for _ in photos.rglob("*.jpg"))
    for name, goal in GOALS.items():
        print(f"{images:,} photos: {name} {median(ratios[name]):.2f} of the local build's time (goal: at most {goal})")


def _on(name: str, program: Path, worker: Worker, photos: Path, work: Path) -> float:
    with ExitStack() as stack:
        flags: Sequence[str] = ("--runner", "PrismRunner", "--prism_location", str(program))
        if name != "Prism, thread":
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
            pool = stack.enter_context(servers.worker_pool(worker, home))
            start = (
                servers.prism(
                    program, pool, home, nice=19
                )  # as docs/how-to/engines.md says, and as the launcher starts it
                if name == "Prism, worker"
                else servers.job_service(worker, pool, home, workers=2)
            )
            flags = stack.enter_context(start).flags
        return build(photos, work / "out", *flags).seconds


def _largest_mb() -> float:
    """Peak resident memory of the largest Python process below this one."""
    return max(map(_high_water_mb, descendants(os.getpid())), default=0.0)


def _high_water_mb(pid: int) -> float:
    """Peak resident memory of a Python process; 0 for others, such as Prism."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:  # it has ended
        return 0.0
    is_ours = fields["Name"].strip().startswith("python") and "VmHWM" in fields
    return int(fields["VmHWM"].split()[0]) / 1024 if is_ours else 0.0


if __name__ == "__main__":
    main()
