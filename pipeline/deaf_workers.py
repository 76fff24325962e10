"""Worker processes that do not hear Ctrl-C.

A terminal sends it to every process of a command. This one ends its workers itself; each of them, left to Python, would print a
traceback before it is ended. An ignored signal is inherited by what a process starts, so the shell that Beam starts a worker
with is told to ignore it. (A blocked signal would do without a shell's help, but Debian's clears it.) They run as
``pipeline.beam_worker``, which keeps quiet about the failures that the launcher explains.
"""

import os
import secrets
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline.interrupt import end_with_builds


class DeafWorkersRunner(FnApiRunner):
    """Beam's in-process engine; the workers of its mode ``multi_processing`` ignore SIGINT."""

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        """Runs a pipeline in Beam's portable form."""
        for environment in pipeline_proto.components.environments.values():
            if environment.urn == python_urns.SUBPROCESS_SDK:
                command = environment.payload.replace(
                    b"apache_beam.runners.worker.sdk_worker_main", b"pipeline.beam_worker"
                )
                mark = secrets.token_hex(16)  # the program ignores its arguments
                end_with_builds(mark)
                command += b" " + mark.encode()
                environment.payload = b"trap '' INT; exec " + command if os.name == "posix" else command
        return super().run_via_runner_api(pipeline_proto, options)
