"""Prism at the lowest priority.

While a step that has a side input is at work, Prism 2.77 looks without a pause whether there is more work for it, and takes the
better part of a core that the images need: 12,272 of them on two cores took 1.6 times the in-process build's time, and 1.2 times
at this priority. What else it has to do, it does while the workers wait for it.
"""

import logging
import shutil
import subprocess
from typing import Any

from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.version import __version__ as beam_version

from pipeline.interrupt import end_with_builds
from shardfeed.errors import UsageError, clip

_DEFAULT_LOG_LEVEL = "info"  # Beam's
_ANSWER_SECONDS = 30.0  # for the options of a program; Prism tells its own in 0.03 s


class PatientPrismRunner(PrismRunner):
    """Beam's runner for Prism; a Prism that it starts is given what time others leave."""

    def default_job_server(self, options: Any) -> Any:
        """The Prism of this program, ended with it."""
        return StopOnExitJobServer(_PatientPrism(options))


class _PatientPrism(PrismJobServer):
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        if self._log_filter is not None and self._log_level == _DEFAULT_LOG_LEVEL:
            self._log_filter = _is_no_record

    def subprocess_cmd_and_endpoint(self) -> tuple[list[Any], str]:
        try:
            command, endpoint = super().subprocess_cmd_and_endpoint()
        except (OSError, RuntimeError, ValueError) as error:  # Beam looks for it in its cache, then fetches it
            raise UsageError(
                f"--runner PrismRunner has no Prism: {error}. Build it with make engines, then give --prism_location "
                f".engines/prism-{beam_version}."
            ) from error
        end_with_builds(*command)  # with a port that no other program can have
        _require_prism(command[0])
        nice = shutil.which("nice")
        return (command if nice is None else [nice, "-n", "19", *command]), endpoint


def _is_no_record(record: logging.LogRecord) -> bool:
    """False for what Prism logs (that it serves, and each failure of a step, several times); not for a crash's last words."""
    return not record.getMessage().startswith("{")


def _require_prism(program: str) -> None:
    """Asks ``program`` for its options. Beam would start it three times, and wait without end for one that does not serve."""
    try:
        asked = subprocess.run(
            [program, "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_SECONDS
        )
        wrong = "" if b"job_port" in asked.stdout + asked.stderr else "it has no option --job_port"
    except (OSError, subprocess.TimeoutExpired) as error:  # a page in place of it, another machine's program
        wrong = str(error)
    if wrong:
        raise UsageError(
            f"--prism_location: {clip(program)} is no Prism for this machine: {clip(wrong)}. Build it with make engines, then "
            f"give --prism_location .engines/prism-{beam_version}."
        )
