"""Prism as a process of one run: started at the lowest priority, and ended with the run.

While a step that has a side input is at work, Prism 2.77 asks without a pause whether there is more
work for it. That takes the better part of a core that the images need. 12,272 of them on two cores
took 1.6 times as long as in process, and 1.2 times at this priority. Prism's other work is done
while the workers wait for it.

Beam's own runner keeps Prism until the interpreter ends and waits a second for it there. It also
installs a handler for SIGINT that stops Prism before anybody else hears the signal.
"""

import logging
import shutil
import subprocess
from typing import Any

from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.utils.subprocess_server import SubprocessServer
from apache_beam.version import __version__ as beam_version

from shardfeed.errors import UsageError, clip

_ANSWER_SECONDS = 30.0  # for a program to list its options; Prism takes 0.03 s


class OwnPrismRunner(PrismRunner):
    """Beam's runner for Prism. At the end of its block it kills the Prism that it started."""

    def __init__(self) -> None:
        super().__init__()
        self._prism: _Prism | None = None

    def default_job_server(self, options: Any) -> Any:
        """The Prism of this run. Beam does not ask for it if the user names a running engine."""
        self._prism = _Prism(options)
        return self._prism

    def __enter__(self) -> "OwnPrismRunner":
        return self

    def __exit__(self, *_: object) -> None:
        if self._prism is not None:
            self._prism.stop()


class _Prism(PrismJobServer):
    _process: "_Process | None" = None

    def start(self) -> Any:
        try:
            command, endpoint = self.subprocess_cmd_and_endpoint()
        except (OSError, RuntimeError, ValueError) as error:  # Beam looks for it in its cache, then fetches it
            raise UsageError(
                f"--runner PrismRunner has no Prism: {error}. Build it with make engines, then give --prism_location "
                f".engines/prism-{beam_version}."
            ) from error
        _require_prism(command[0])
        if nice := shutil.which("nice"):
            command = [nice, "-n", "19", *command]
        port, logger = int(endpoint.rpartition(":")[2]), logging.getLogger(__name__)
        self._process = _Process(beam_job_api_pb2_grpc.JobServiceStub, command, port=port, logger=logger)
        return self._process.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class _Process(SubprocessServer):
    """Beam's server process. It also remembers the process that it has started."""

    _popen: "subprocess.Popen[bytes] | None" = None

    def start_process(self) -> Any:
        self._popen, endpoint = super().start_process()
        return self._popen, endpoint

    def stop(self) -> None:
        """Ends the process at once. Beam would ask it to end, and wait for a second."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
        super().stop()


def _require_prism(program: str) -> None:
    """Asks ``program`` for its options.

    Beam would start it three times, and wait for ever for a program that does not serve.
    """
    try:
        asked = subprocess.run(
            [program, "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_SECONDS
        )
        wrong = "" if b"job_port" in asked.stdout + asked.stderr else "it has no option --job_port"
    except (OSError, subprocess.TimeoutExpired) as error:  # a web page in its place, or another machine's program
        wrong = str(error)
    if wrong:
        raise UsageError(
            f"--prism_location: {clip(program)} is no Prism for this machine: {clip(wrong)}. Build it with make engines, then "
            f"give --prism_location .engines/prism-{beam_version}."
        )
