"""Warns once if the workers of a job never begin: the engine waits for them for ever, in silence.

A worker shows itself by a count of ours, or by the claim that the first one writes into the output.
Some engines give no counts before the end, and a large input is listed before the claim: the line says
so. It is only a line, because a cluster may take long to give machines. If the output has a claim
already, nobody is warned.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from shardfeed.errors import ShardfeedError, clip
from shardfeed.format import naming
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.engines.counters import counted
from shardfeed.transforms import stores

SECONDS = 60.0  # without a sign; workers of a pool begin within 5 s, containers on an idle cluster within 30 s


@contextlib.contextmanager
def awaited(result: Any, engine: Engine, output: str, stream: TextIO | None) -> Iterator[None]:
    """Warns on ``stream`` if ``result``'s job has shown no sign for ``SECONDS`` of the block."""
    if stream is None or engine.encodes_here:
        yield
        return
    ended = threading.Event()

    def look() -> None:
        if not (ended.wait(SECONDS) or has_begun(result, output) or ended.is_set()):
            stream.write(f"shardfeed: {_warning(engine)}\n")
            stream.flush()

    threading.Thread(target=look, name="first sign", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def has_begun(result: Any, output: str) -> bool:
    """Whether a worker of ``result``'s job has shown itself; also True if that cannot be seen."""
    # Of a copy: Beam's result keeps the first counts that it was asked for, and those of the job's end are needed too.
    with contextlib.suppress(Exception):  # whatever an engine's client raises: then only the output is looked at
        if counted(copy.copy(result)):
            return True
    try:
        return stores.open_output(output).stat(naming.CLAIM) is not None
    except ShardfeedError:
        return True


def _warning(engine: Engine) -> str:
    external = engine.arg("environment_type") == "EXTERNAL"
    pool = f" at {clip(engine.arg('environment_config'))}" if external else ""
    return (
        f"no worker was heard of in {SECONDS:g} s (some engines tell nothing while a large input is listed). See that the "
        f"workers{pool} run, and that their `python` has shardfeed and apache-beam. Still waiting."
    )
