"""The limit that builds are compared with: a bare loop on N threads, no Beam, no shards, no checks.

read -> Pillow decode -> cykooz catmull-rom -> Pillow encode (quality 90) -> TFRecord frame -> one file. Prints images a second.
"""

from __future__ import annotations

import argparse
import io
import os
import struct
import tempfile
import threading
import time
from pathlib import Path

import cykooz_resizer
import google_crc32c
from PIL import Image

_SIZE = (224, 224)


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", _mask(google_crc32c.value(length))), data,
                     struct.pack("<I", _mask(google_crc32c.value(data)))))  # fmt: skip


def run_loop(paths: list[Path], threads: int) -> float:
    """Seconds for all of ``paths`` on ``threads`` threads."""
    todo, lock = iter(paths), threading.Lock()
    with tempfile.TemporaryFile() as out:

        def work() -> None:
            resizer = cykooz_resizer.Resizer()
            options = cykooz_resizer.ResizeOptions(
                cykooz_resizer.ResizeAlg.convolution(cykooz_resizer.FilterType.catmull_rom)
            )
            while True:
                with lock:
                    path = next(todo, None)
                if path is None:
                    return
                with open(path, "rb") as file:
                    image = Image.open(io.BytesIO(file.read()))
                image.load()
                small = Image.new("RGB", _SIZE)
                resizer.resize_pil(image, small, options)
                buffer = io.BytesIO()
                small.save(buffer, "JPEG", quality=90)
                record = _frame(buffer.getvalue())
                with lock:
                    out.write(record)

        began = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - began


def main() -> None:
    """Runs the loop once over every .jpg below a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    paths = sorted(args.photos.rglob("*.jpg"))
    seconds = run_loop(paths, args.threads)
    print(f"{seconds:.4f}")


if __name__ == "__main__":
    main()
