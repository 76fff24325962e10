"""Prism at the lowest priority.

While a step that has a side input is at work, Prism 2.77 looks without a pause whether there is more work for it, and takes the
better part of a core that the images need: 12,272 of them on two cores took 1.6 times the in-process build's time, and 1.2 times
at this priority. What else it has to do, it does while the workers wait for it.
"""

import shutil
from typing import Any

from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner


class PatientPrismRunner(PrismRunner):
    """Beam's runner for Prism; a Prism that it starts is given what time others leave."""

    def default_job_server(self, options: Any) -> Any:
        """The Prism of this program, ended with it."""
        return StopOnExitJobServer(_PatientPrism(options))


class _PatientPrism(PrismJobServer):
    def subprocess_cmd_and_endpoint(self) -> tuple[list[Any], str]:
        command, endpoint = super().subprocess_cmd_and_endpoint()
        nice = shutil.which("nice")
        return ([nice, "-n", "19", *command] if nice else command), endpoint
