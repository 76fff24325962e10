"""A store of objects as far away as a bucket: 50 ms before each answer, 1 Gbit/s in all.

    python slow_store.py FOLDER    # prints its port; the bucket is the folder's name

It speaks as much of Google Cloud Storage as reading needs. All answers share the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import email.utils
import re
from pathlib import Path
from urllib.parse import unquote

_PIECE = 1 << 18  # bytes that are sent at a time


class SlowStore:
    """The server. ``delay``: seconds before an answer; ``rate``: bytes per second."""

    def __init__(self, folder: Path, delay: float, rate: float) -> None:
        self._delay, self._rate = delay, rate
        self._objects = {
            f"/{folder.name}/{path.relative_to(folder)}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        self._free_at = 0.0  # the time at which the line has sent all that was given to it

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await asyncio.sleep(self._delay)
                await self._send(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _send(self, head: str, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        data = self._objects.get(unquote(target.partition("?")[0]))
        if data is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        asked = re.search(r"\r\nrange: bytes=(\d+)-(\d+)", head, re.IGNORECASE)
        first, end = (int(asked[1]), min(int(asked[2]) + 1, len(data))) if asked else (0, len(data))
        lines = [
            "HTTP/1.1 206 Partial Content" if asked else "HTTP/1.1 200 OK",
            f"Content-Length: {end - first}",
            *([f"Content-Range: bytes {first}-{end - 1}/{len(data)}"] if asked else []),
            f'ETag: "{len(data)}"',
            "x-goog-generation: 1",
            f"Last-Modified: {email.utils.formatdate(0, usegmt=True)}",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if method == "HEAD":
            return
        view = memoryview(data)[first:end]
        for at in range(0, len(view), _PIECE):
            await self._wait_for_the_line(min(_PIECE, len(view) - at))
            writer.write(view[at : at + _PIECE])
            await writer.drain()

    async def _wait_for_the_line(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + size / self._rate
        await asyncio.sleep(self._free_at - now)


async def serve(folder: Path, delay: float, rate: float) -> None:
    """Serves until it is stopped."""
    server = await asyncio.start_server(SlowStore(folder, delay, rate).answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Starts the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--milliseconds", type=float, default=50)
    parser.add_argument("--gigabits", type=float, default=1)
    args = parser.parse_args()
    asyncio.run(serve(args.folder.resolve(), args.milliseconds / 1e3, args.gigabits * 1e9 / 8))


if __name__ == "__main__":
    main()
