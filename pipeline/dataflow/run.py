"""A build on Dataflow, from the look at what it needs to the job's end.

``pipeline/run_build.py`` calls it instead of ``pipeline/engines/run.py``.

The one decision: whatever can be refused without listing the input is refused before a VM is paid for (of the output,
``shardfeed.pipeline.already_built`` does it); and the launcher may leave right after it has
handed the job over (a Flex template's launcher must), because the graph itself publishes the dataset.
"""

from __future__ import annotations

import os
from typing import Any, TextIO

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.follow import follow, job_link, submit
from shardfeed.pipeline.dataflow.preflight import STAGED_FLAGS, check_buckets, check_options
from shardfeed.pipeline.dataflow.workers import choose_workers, job_name_of
from shardfeed.pipeline.engines.counters import note_counted
from shardfeed.pipeline.engines.run import cancelled_or_left
from shardfeed.pipeline.report.submitted import Submitted
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.run.state import Run


def prepare(
    engine: Engine,
    options: Any,
    run: Run,
    stream: TextIO | None,
    *,
    roots: tuple[InputRoot, ...],
    threads: int,
    anywhere: bool,
) -> None:
    """Checks what can be checked and chooses the workers; what was chosen is said on ``stream``.

    ``options`` are Beam's, made of ``engine``'s arguments. ``anywhere``: buckets may lie in other regions than the workers.

    Raises:
        UsageError: the job could not run.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    cloud = options.view_as(GoogleCloudOptions)
    cloud.region = cloud.region or os.environ.get("CLOUDSDK_COMPUTE_REGION")  # as Beam does, later
    staged = {name: getattr(cloud, name) for name in STAGED_FLAGS}
    check_options(engine, roots=roots, output=run.output, project=cloud.project, region=cloud.region, temp=staged)
    _require_package(options)
    check_buckets(engine, roots=roots, output=run.output, region=cloud.region, temp=staged, anywhere=anywhere)
    lines = choose_workers(options, threads=threads, job_name=job_name_of(run.output, run.run_id))
    if stream is not None:
        stream.write("".join(f"dataflow: {line}\n" for line in lines))
        stream.flush()


def _require_package(options: Any) -> None:
    from apache_beam.options.pipeline_options import SetupOptions, WorkerOptions

    setup, image = options.view_as(SetupOptions), options.view_as(WorkerOptions).sdk_container_image
    if not (image or setup.setup_file or setup.extra_packages or setup.requirements_file):
        raise UsageError(
            "--runner DataflowRunner needs --setup_file setup.py, from a checkout, or --sdk_container_image: else the workers "
            "have no shardfeed. run_dataflow.sh gives one of the two; docs/how-to/dataflow.md says which when."
        )


def run_on_dataflow(pipeline: Any, options: Any, engine: Engine, run: Run, stream: TextIO | None) -> Submitted | None:
    """Hands the job over and waits for its end, where waiting was not forbidden: else gives what was submitted.

    Raises:
        UsageError: Dataflow refused the job, or its workers lacked the package.
        IncompleteError: the job did not end well, or nobody knows whether Dataflow took it.
    """
    result = submit(pipeline, options, named=engine.arg("job_name") is not None)
    if not result.has_job:
        return Submitted(run.output, None)
    link = job_link(result, options)
    if not engine.waits_for_end:
        return Submitted(run.output, str(result.job_id()), link)
    if stream is not None:
        stream.write(f"{link}\n")
        stream.flush()

    with cancelled_or_left(result, engine, run.output, f"job {result.job_id()} on Dataflow"):
        follow(result, pipeline.runner.dataflow_client, stream)
        note_counted(result, run)
    return None
