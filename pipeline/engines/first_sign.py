"""A job whose workers never begin: an engine waits for them for ever and says nothing, so the launcher says it once.

Only a line: a cluster may take long to give machines. A worker is heard of when it has counted something or written below
``_parts/``, where the claim is the first. Some engines give no counts before the end, and then one that lists a large input is
not heard of yet; the line says so.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from shardfeed import storage
from shardfeed.errors import ShardfeedError, clip
from shardfeed.format import naming
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.engines.counters import counted

SECONDS = 60.0  # without a sign; workers of a pool begin within 5 s, containers on an idle cluster within 30 s


class SilentWorkers:
    """Says on ``stream`` that no worker of a job was heard of.

    Made before the job runs: what lies in the output then is no sign of it.
    """

    def __init__(self, config: BuildConfig, stream: TextIO | None) -> None:
        self._stream = None if config.engine.encodes_here or config.engine.is_dataflow else stream
        self._config = config
        self._before = 0 if self._stream is None else self._state()

    @contextlib.contextmanager
    def told(self, result: Any) -> Iterator[None]:
        """While ``result``'s job is waited for in the block."""
        if self._stream is None:
            yield
            return
        ended = threading.Event()
        threading.Thread(target=self._look, args=(result, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def heard(self, result: Any) -> bool:
        """Whether a worker of the job has shown itself; True as well where that cannot be seen."""
        # Beam's result keeps the first counts that it was asked for; those of the job's end are needed too.
        with contextlib.suppress(Exception):  # whatever an engine's client raises: the output is looked at
            if counted(copy.copy(result)):
                return True
        try:
            return self._state() != self._before
        except ShardfeedError:
            return True

    def _look(self, result: Any, ended: threading.Event) -> None:
        if ended.wait(SECONDS) or self.heard(result) or ended.is_set():
            return
        assert self._stream is not None
        self._stream.write(f"shardfeed: {self._text()}\n")
        self._stream.flush()

    def _text(self) -> str:
        pool = self._config.engine.arg("environment_config")
        external = self._config.engine.arg("environment_type") == "EXTERNAL"
        return (
            f"no worker was heard of in {SECONDS:g} s (some engines tell nothing while a large input is listed). See that the "
            f"workers{f' at {clip(pool)}' if external else ''} run, and that their `python` has shardfeed and apache-beam. "
            "Still waiting."
        )

    def _state(self) -> int:
        """A sum that every other set of names below ``_parts/`` gives another of; a million names are not held."""
        store = storage.open_store(self._config.output)
        return sum(hash(name) for name, _ in store.list(naming.PARTS + "/"))
