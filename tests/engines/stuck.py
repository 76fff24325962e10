"""A build on an engine whose worker stands still amid encoding until the gate is opened."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engines.launcher import SECONDS, Launcher, launched
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Engine, Server

# A worker tells who it is, and waits for the gate, at the first image after ten and after a whole part. Several threads can
# have ten images in hand, and no part.
_HOOK = """
import glob, itertools
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process
from shardfeed.transforms.images import process
good, count = process.process_image, itertools.count()
def stuck(*args, **kwargs):
    if next(count) >= 10 and glob.glob({sidecars!r}):
        with open({reached!r}, "w") as reached:
            reached.write(f"{{os.getpid()}}\\n")
        os.read(os.open({gate!r}, os.O_RDONLY), 1)
    return good(*args, **kwargs)
process.process_image = stuck
"""


@dataclass(frozen=True)
class Stuck:
    """``launcher`` waits for the job; ``worker`` is the process that stands still."""

    args: tuple[str, ...]
    launcher: Launcher
    engine: Engine
    worker: int
    gate: int

    def open_gate(self) -> None:
        """Lets the worker go on, now and from now on: every image takes a byte."""
        os.write(self.gate, b"." * 1000)


@contextlib.contextmanager
def stuck_on_prism(program: Path, pool: Server, hook: Path, folder: Path, args: tuple[str, ...]) -> Iterator[Stuck]:
    """``shardfeed args…`` on Prism, whose workers run ``hook``."""
    reached, gate = folder / "reached", folder / "gate"
    os.mkfifo(reached)
    os.mkfifo(gate)
    pipe, way = os.open(reached, os.O_RDWR), os.open(gate, os.O_RDWR)  # neither waits for the other end
    hook.write_text(_HOOK.format(reached=str(reached), gate=str(gate), sidecars=f"{folder}/out/_parts/*/*/*.json"))
    try:
        with servers.prism(program, pool, folder) as engine, launched((*args, *engine.flags), folder) as launcher:
            came = select.select([pipe], [], [], SECONDS)[0]
            assert came, f"no worker came as far as encoding; {launcher}"
            yield Stuck(args, launcher, engine, int(os.read(pipe, 100).split()[0]), way)
    finally:
        os.close(pipe)
        os.close(way)
