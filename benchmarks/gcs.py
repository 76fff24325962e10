"""A build from a local GCS server to a local GCS server, against the same build on the local disk.

The server (fake-gcs-server, objects as files in memory, one thread of Go) shares the machine's
cores, so the ratio is far from what a bucket would give; it guards against more requests, more
connections or more client CPU an image. The server's own CPU is printed with each round.
"""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import ROOT, build, command, link_copies, median, photos_parser, where

sys.path.insert(0, str(ROOT))  # the server's starter lives with the tests

from shardfeed.processes import descendants


def upload(photos: Path, bucket: str) -> None:
    """All photos into a new bucket."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(project="p", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    target = client.create_bucket(bucket)
    client.create_bucket("datasets")
    with ThreadPoolExecutor(8) as pool:
        paths = sorted(photos.rglob("*.jpg"))
        list(pool.map(lambda path: target.blob(str(path.relative_to(photos))).upload_from_filename(path), paths))


def _server_cpu() -> float:
    """CPU seconds so far of the only process below this one."""
    (server,) = descendants(os.getpid())
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf(
        "SC_CLK_TCK"
    )  # utime and stime, fields 14 and 15 of proc(5)


def main() -> None:
    """Prints a line a round and the median ratio."""
    from tests.kit.servers.fake_gcs_server import running_fake_gcs_server

    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", help="of the bucket build (default: the command's own)")
    args = parser.parse_args()
    print(where())
    # More of them spin while they wait for the next request; and a collection each few megabytes is
    # the server's own affair.
    os.environ.update(GOMAXPROCS="1", GOGC="400")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else args.work
    with (
        tempfile.TemporaryDirectory(dir=args.work) as work,
        tempfile.TemporaryDirectory(dir=memory) as objects,
        running_fake_gcs_server(Path(objects)) as url,
    ):
        os.environ["STORAGE_EMULATOR_HOST"] = url
        os.environ["DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"] = "true"
        photos = link_copies(args.photos, Path(work) / "photos", args.copies)
        images = sum(1 for _ in photos.rglob("*.jpg"))
        upload(photos, "photos")
        ratios = []
        for turn in range(args.rounds):
            local, before = build(photos, Path(work) / "out"), _server_cpu()
            remote = command(
                "-m", "shardfeed", "build", "--input", "gs://photos", "--output", f"gs://datasets/v{turn}", "--resize", "squash",
                "--quality", "90", "--num_shards", "16",
                *([] if args.threads is None else ["--threads", args.threads]),
            )  # fmt: skip
            ratios.append(local.seconds / remote.seconds)
            rates = f"local {images / local.seconds:,.0f} img/s, bucket to bucket {images / remote.seconds:,.0f} img/s"
            cpu = f"CPU {local.cpu:.1f} s, {remote.cpu:.1f} s and the server's {_server_cpu() - before:.1f} s"
            print(f"{turn + 1}: {rates}, ratio {ratios[-1]:.3f}, {cpu}", flush=True)
        print(f"{images:,} photos: bucket to bucket {median(ratios):.3f} of the local build")


if __name__ == "__main__":
    main()
