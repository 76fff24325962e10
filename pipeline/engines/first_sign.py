"""Warns once if the workers of a job never begin: the engine would wait for ever, in silence.

The first worker shows itself by its claim in the output. A large input is listed before that, and a
cluster may take long to give machines. So this is only a line, and it says so. If the output has a
claim of an earlier run, nobody is warned.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TextIO

from shardfeed.errors import ShardfeedError, clip
from shardfeed.format import naming
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.report.progress import show
from shardfeed.transforms import stores

SECONDS = 60.0  # without a sign; workers of a pool begin within 5 s, containers on an idle cluster within 30 s


@contextlib.contextmanager
def awaited(engine: Engine, output: str, stream: TextIO | None) -> Iterator[None]:
    """Warns on ``stream`` if no worker has shown itself after ``SECONDS`` in the block."""
    if stream is None or engine.encodes_here:
        yield
        return

    def look() -> None:
        if not has_begun(output):
            show(stream, f"shardfeed: {_warning(engine)}")

    timer = threading.Timer(SECONDS, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def has_begun(output: str) -> bool:
    """Whether a worker has claimed the output; also True if that cannot be seen."""
    try:
        return stores.open_output(output).stat(naming.CLAIM) is not None
    except ShardfeedError:
        return True


def _warning(engine: Engine) -> str:
    external = engine.arg("environment_type") == "EXTERNAL"
    pool = f" at {clip(engine.arg('environment_config'))}" if external else ""
    return (
        f"no worker has claimed the output in {SECONDS:g} s (a large input is listed before that). See that the workers{pool} "
        "run, and that their `python` has shardfeed and apache-beam. Still waiting."
    )
