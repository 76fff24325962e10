"""Prism at the lowest priority.

While a step that has a side input is at work, Prism 2.77 looks without a pause whether there is more work for it, and takes the
better part of a core that the images need: 12,272 of them on two cores took 1.6 times the in-process build's time, and 1.2 times
at this priority. What else it has to do, it does while the workers wait for it.
"""

import logging
import shutil
import sys
from typing import Any

from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.version import __version__ as beam_version

from shardfeed.errors import UsageError

_DEFAULT_LOG_LEVEL = "info"  # Beam's


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
        nice = shutil.which("nice")
        if nice is None or not _is_for_this_machine(command[0]):
            return command, endpoint  # which says best what is wrong with it: nice would give it to a shell
        return [nice, "-n", "19", *command], endpoint


def _is_no_record(record: logging.LogRecord) -> bool:
    """False for what Prism logs (that it serves, and each failure of a step, several times); not for a crash's last words."""
    return not record.getMessage().startswith("{")


def _is_for_this_machine(program: str) -> bool:
    """Whether ``program`` is executable code of this interpreter's format, word size and machine, or a script."""
    try:
        head, own = _head(program), _head(sys.executable)
    except OSError:
        return False
    return head == own or head.startswith(b"#!")


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        head = file.read(20)
    return head[:6] + head[18:20] if head.startswith(b"\x7fELF") else head[:4]
