"""A build on Dataflow, from the choice of its workers to the job's end.

``pipeline/graph.py`` calls it in place of ``pipeline/engines/run.py``. The graph itself publishes
the dataset, so this program may leave as soon as the job is handed over; a Flex template's launcher
must.
"""

from __future__ import annotations

import os
from typing import Any, TextIO

from apache_beam.options.pipeline_options import GoogleCloudOptions, SetupOptions, WorkerOptions

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.follow import follow
from shardfeed.pipeline.dataflow.submission import submit
from shardfeed.pipeline.dataflow.workers import choose_workers, job_name_of
from shardfeed.pipeline.engines.counters import note_counted
from shardfeed.pipeline.engines.run import cancelled_or_left
from shardfeed.pipeline.report.progress import show
from shardfeed.pipeline.report.submitted import Submitted
from shardfeed.transforms.run.state import Run


def prepare(options: Any, run: Run, stream: TextIO | None, *, threads: int) -> None:
    """Chooses the job's name and workers if Beam's ``options`` do not; shows them on ``stream``.

    Raises:
        UsageError: the workers would not have the package.
    """
    cloud = options.view_as(GoogleCloudOptions)
    cloud.region = cloud.region or os.environ.get("CLOUDSDK_COMPUTE_REGION")  # as Beam does, later
    setup, image = options.view_as(SetupOptions), options.view_as(WorkerOptions).sdk_container_image
    if not (image or setup.setup_file or setup.extra_packages or setup.requirements_file):
        raise UsageError(
            "--runner DataflowRunner needs --setup_file setup.py, from a checkout, or --sdk_container_image: else the workers "
            "have no shardfeed. run_dataflow.sh gives one of the two; docs/how-to/dataflow.md says which when."
        )
    lines = choose_workers(options, threads=threads, job_name=job_name_of(run.output, run.run_id))
    for line in lines:
        show(stream, f"dataflow: {line}")


def run_on_dataflow(pipeline: Any, options: Any, engine: Engine, run: Run, stream: TextIO | None) -> Submitted | None:
    """Hands the job over and waits for its end. Returns what was submitted if nobody shall wait.

    Raises:
        UsageError: Dataflow refused the job, or its workers lacked the package.
        IncompleteError: the job did not end well, or nobody knows whether Dataflow took it.
    """
    result = submit(pipeline, options, named=engine.arg("job_name") is not None)
    if not result.has_job:
        return Submitted(run.output, None)
    cloud, job = options.view_as(GoogleCloudOptions), str(result.job_id())
    link = f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}/{job}?project={cloud.project}"
    if not engine.waits_for_end:
        return Submitted(run.output, job, link)
    show(stream, link)
    with cancelled_or_left(result, engine, run.output, f"job {job} on Dataflow"):
        follow(result, pipeline.runner.dataflow_client, stream)
        note_counted(result, run)
    return None
