"""What a config says of the engine: which one it is, where images are encoded, and what each cannot do without."""

from __future__ import annotations

import pytest

from shardfeed.errors import UsageError
from tests.pipeline.test_config import DATAFLOW, _config

FLINK = "apache_beam.runners.portability.flink_runner.FlinkRunner"


@pytest.mark.parametrize(
    ("runner", "beam_args", "engine", "in_process"),
    [
        (None, (), "FnApiRunner", True),
        ("DirectRunner", (), "FnApiRunner", True),
        ("directrunner", (), "FnApiRunner", True),
        ("SwitchingDirectRunner", (), "FnApiRunner", True),
        ("apache_beam.runners.direct.direct_runner.DirectRunner", (), "FnApiRunner", True),
        ("FnApiRunner", (), "FnApiRunner", True),
        ("FnApiRunner", ("--direct_running_mode", "in_memory"), "FnApiRunner", True),
        ("FnApiRunner", ("--direct_running_mode=multi_threading",), "FnApiRunner", True),
        ("FnApiRunner", ("--direct_running_mode=multi_processing",), "FnApiRunner", False),
        (
            "FnApiRunner",
            ("--direct_num_workers", "2", "--direct_running_mode", "multi_processing"),
            "FnApiRunner",
            False,
        ),
        (None, ("--direct_running_mode=multi_processing", "--direct_running_mode=in_memory"), "FnApiRunner", True),
        ("PrismRunner", (), "PrismRunner", False),
        ("prismrunner", (), "PrismRunner", False),
        ("apache_beam.runners.portability.prism_runner.PrismRunner", (), "PrismRunner", False),
        ("DataflowRunner", DATAFLOW, "DataflowRunner", False),
        ("flinkrunner", (), "flinkrunner", False),
        (FLINK, (), FLINK, False),
        ("my_package.MyRunner", (), "my_package.MyRunner", False),
        ("my_package.DirectRunner", (), "my_package.DirectRunner", False),
    ],
)
def test_the_direct_runner_is_beams_in_process_engine_by_name(
    runner: str | None, beam_args: tuple[str, ...], engine: str, in_process: bool
) -> None:
    config = _config(runner=runner, beam_args=beam_args)

    assert (config.engine, config.in_process) == (engine, in_process)


@pytest.mark.parametrize(
    ("runner", "beam_args", "here"),
    [
        (None, (), True),
        (None, ("--direct_running_mode=multi_processing",), False),
        ("PrismRunner", (), True),
        ("PrismRunner", ("--environment_type", "EXTERNAL", "--environment_config=host:2"), False),
        ("PrismRunner", ("--experiments=use_loopback_process_worker",), False),
        ("PortableRunner", ("--job_endpoint=host:1",), False),
        ("PortableRunner", ("--job_endpoint=host:1", "--environment_type=LOOPBACK"), True),
        ("FlinkRunner", ("--flink_master=host:1",), False),
        ("DataflowRunner", (*DATAFLOW, "--environment_type=LOOPBACK"), False),
    ],
    ids=str,
)
def test_helpers_are_for_builds_that_encode_in_this_process(
    runner: str | None, beam_args: tuple[str, ...], here: bool
) -> None:
    assert _config(runner=runner, beam_args=beam_args).encodes_here is here


@pytest.mark.parametrize(
    ("runner", "beam_args", "message"),
    [
        (
            "PrismRunner",
            ("--prism_location", "/"),
            "--prism_location / is not a file. Build Prism with make engines (.engines/), or name where it is.",
        ),
        (
            "PrismRunner",
            ("--prism_location=/no/prism",),
            "--prism_location /no/prism does not exist. Build Prism with make engines (.engines/), or name where it is.",
        ),
        (
            "PortableRunner",
            (),
            "--runner PortableRunner also needs --job_endpoint HOST:PORT, where the engine's job service listens "
            "(docs/engines.md has examples).",
        ),
        (
            "PortableRunner",
            ("--job_endpoint", "localhost"),
            "--job_endpoint localhost names no port. Give HOST:PORT, where the engine's job service listens, such as "
            "localhost:8099.",
        ),
        (
            "PortableRunner",
            ("--job_endpoint=localhost:1", "--environment_type=EXTERNAL"),
            "--environment_type EXTERNAL also needs --environment_config HOST:PORT, where the worker pool listens "
            "(docs/engines.md has examples).",
        ),
        (
            "PortableRunner",
            ("--job_endpoint=localhost:1", "--environment_type=PROCESS", "--environment_config="),
            '--environment_type PROCESS also needs --environment_config \'{"command": "/opt/beam/boot"}\', the program that '
            "starts a worker (docs/engines.md has examples).",
        ),
        (
            "PrismRunner",
            ("--environment_type=PROCESS", '--environment_config={"command": "/opt/beam/boot"}'),
            "--environment_type PROCESS: Prism starts the program with its worker's id in quotes, which it then does not know, "
            "and would wait for ever. Leave it out, or give EXTERNAL with a worker pool (docs/engines.md has examples).",
        ),
        (
            "PrismRunner",
            ("--environment_type", "loopback"),
            "--environment_type loopback: allowed are DOCKER, PROCESS, EXTERNAL, LOOPBACK, in capitals, and Beam's own "
            "identifiers (beam:env:…); docs/engines.md has examples.",
        ),
    ],
)
def test_what_an_engine_cannot_do_without_is_asked_for_before_it_is_started(
    runner: str, beam_args: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as found:
        _config(runner=runner, beam_args=beam_args)

    assert str(found.value) == message
