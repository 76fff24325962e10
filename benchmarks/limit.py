"""The limit that builds are compared with: one single-threaded process per core, no Beam, no
shards, no checks.

Each process reads every N-th photo, decodes it with the build's decoder, resizes it, encodes it
(quality 90), frames the record and appends it to a file of its own. Run as a whole command it
includes its start; ``benchmarks/build.py`` compares the two commands.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import struct
import tempfile
import time
from pathlib import Path

import cykooz_resizer
import google_crc32c
import numpy as np
import simplejpeg
from PIL import Image

_SIZE = (224, 224)
_OPTIONS = cykooz_resizer.ResizeOptions(cykooz_resizer.ResizeAlg.convolution(cykooz_resizer.FilterType.catmull_rom))


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", _mask(google_crc32c.value(length))), data,
                     struct.pack("<I", _mask(google_crc32c.value(data)))))  # fmt: skip


def _decode(data: bytes) -> Image.Image:
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    memory = np.empty(height * width * 4 + 8, np.uint8)[
        8:
    ]  # unaligned, as in the build: see transforms/images/decode.py
    simplejpeg.decode_jpeg(data, "RGBX", buffer=memory)
    image = Image.frombuffer("RGBX", (width, height), memory, "raw", "RGBX", 0, 1)
    image.im.setmode("RGB")
    image._mode = "RGB"
    return image


def _work(paths: list[str], folder: str, number: int) -> None:
    resizer = cykooz_resizer.Resizer()
    with open(os.path.join(folder, str(number)), "wb") as out:
        for path in paths:
            with open(path, "rb") as file:
                image = _decode(file.read())
            small = Image.new("RGB", _SIZE)
            resizer.resize_pil(image, small, _OPTIONS)
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=90, subsampling=2)
            out.write(_frame(buffer.getvalue()))


def run_processes(paths: list[str], count: int) -> float:
    """Seconds for all of ``paths`` in ``count`` processes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=_work, args=(paths[i::count], folder, i)) for i in range(count)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise SystemExit("a process of the limit failed")
    return time.perf_counter() - began


def photos_below(folder: str) -> list[str]:
    """Paths of the .jpg files below ``folder``, in order."""
    return sorted(
        os.path.join(where, name) for where, _, names in os.walk(folder) for name in names if name.endswith(".jpg")
    )


def main() -> None:
    """Runs the processes once over all .jpg files of a folder; prints seconds without start-up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    print(f"{run_processes(photos_below(str(args.photos)), args.processes):.4f}")


if __name__ == "__main__":
    main()
