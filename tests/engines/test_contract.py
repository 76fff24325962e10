"""Every private thing of Beam's that we rely on: a release without it fails here, not at a user's.

Names in Beam's documentation are not listed. Other tests show the behaviour behind a name.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path

import pytest
from apache_beam import version
from apache_beam.runners import common
from apache_beam.runners.worker import sdk_worker

from shardfeed.pipeline.engines import failure_text
from tests.kit.sources import ROOT

RUNNERS = "apache_beam.runners"
JOB = f"{RUNNERS}.portability.portable_runner", "PipelineResult"
PRISM = f"{RUNNERS}.portability.prism_runner"
SERVER = "apache_beam.utils.subprocess_server", "SubprocessServer"
CLIENT = f"{RUNNERS}.dataflow.internal.apiclient", "DataflowApplicationClient"
CLOUD_JOB = f"{RUNNERS}.dataflow.dataflow_runner", "DataflowPipelineResult"

# Who uses it; module, class and method; names that the method takes, or that stand in its code.
NAMES = [
    ("engines/flags", "apache_beam.options.pipeline_options", "PipelineOptions", "_add_argparse_args", "parser"),
    ("engines/prism", PRISM, "PrismRunner", "default_job_server", "self options"),
    ("engines/prism", PRISM, "PrismJobServer", "subprocess_cmd_and_endpoint", "self"),
    ("engines/prism", *SERVER, "__init__", "self stub_class cmd port logger"),
    ("engines/prism", *SERVER, "start", "self"),
    ("engines/prism", *SERVER, "start_process", "self"),
    ("engines/prism", *SERVER, "stop", "self"),
    ("engines/quiet", f"{RUNNERS}.worker.sdk_worker", "SdkHarness", "_execute", "print"),
    ("engines/run", *JOB, "__init__", "_job_id"),
    ("engines/run", *JOB, "cancel", "self"),
    ("engines/run", f"{RUNNERS}.portability.portable_runner", "PortableRunner", "run_pipeline", "self"),
    ("graph", "apache_beam.pipeline", "Pipeline", "__init__", "local_tempdir"),
    ("dataflow/submission", f"{RUNNERS}.dataflow.dataflow_runner", "DataflowRunner", "run_pipeline", "dataflow_client"),
    ("dataflow/submission", *CLIENT, "create_job", "submit_job_description"),
    ("dataflow/submission", *CLIENT, "submit_job_description", "self job DataflowJobAlreadyExistsError"),
    ("dataflow/follow", *CLIENT, "list_messages", "self job_id"),
    ("dataflow/follow", *CLOUD_JOB, "__init__", "_job"),
    ("dataflow/follow", *CLOUD_JOB, "_get_job_state", "current_state"),
]


def names_in(code: types.CodeType) -> set[str]:
    """Names that a function uses or takes, and those inside it."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return {*code.co_names, *code.co_freevars, *code.co_varnames}.union(*map(names_in, inner))


@pytest.mark.parametrize("case", NAMES, ids="-".join)
def test_a_private_method_is_there_with_the_names_that_we_rely_on(case: tuple[str, str, str, str, str]) -> None:
    _, module, owner, method, names = case
    function = inspect.unwrap(getattr(getattr(importlib.import_module(module), owner), method))
    assert {*names.split()} <= names_in(function.__code__)


def test_the_worker_prints_by_python_s_own_function() -> None:
    assert "print" not in vars(sdk_worker)


def test_an_error_in_a_step_is_marked_as_we_look_for_it() -> None:
    assert failure_text._IN_A_STEP in Path(common.__file__).with_name("common.py").read_text()


def test_the_package_asks_for_the_release_that_these_tests_ran_with() -> None:
    (low, high) = re.findall(r'"apache-beam\[gcp\]>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text())[0]
    minor = int(low.split(".")[1])
    assert (low, high) == (f"2.{minor}", f"2.{minor + 1}")
    assert version.__version__.startswith(f"{low}.")
