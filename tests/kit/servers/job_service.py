"""Beam's own job service with a number of workers: ``job_service.py PORT WORKERS``.

The service has no option for it (``--direct_num_workers`` does not reach it). The rest is Beam's.
"""

from __future__ import annotations

import sys
from typing import Any

from apache_beam.runners.portability import local_job_service_main
from apache_beam.runners.portability.fn_api_runner import fn_runner


def main(port: str, workers: str) -> None:
    made = fn_runner.FnApiRunner.__init__

    def with_workers(self: fn_runner.FnApiRunner, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self._num_workers = int(workers)

    setattr(fn_runner.FnApiRunner, "__init__", with_workers)  # noqa: B010
    run: Any = local_job_service_main.run
    run([local_job_service_main.__file__, f"--port={port}"])


if __name__ == "__main__":
    main(*sys.argv[1:])
