"""What a runner's name and Beam's arguments mean: one row per decision."""

from __future__ import annotations

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine

DATAFLOW = ("--project=my-project", "--region", "us-central1", "--temp_location=gs://bucket/tmp")
ELSEWHERE = ("--job_endpoint", "host:1")
EXTERNAL = ("--environment_type", "EXTERNAL", "--environment_config=host:2")
FLINK = "apache_beam.runners.portability.flink_runner.FlinkRunner"
DATAFLOW_IN_FULL = "apache_beam.runners.dataflow.dataflow_runner.DataflowRunner"
ALL_HERE = {"in_process", "encodes_here"}
MEMBERS = ("in_process", "encodes_here", "outlives_launcher", "is_local", "is_dataflow")


@pytest.mark.parametrize(
    ("runner", "args", "kind", "true"),
    [
        (None, (), "local", {*ALL_HERE, "is_local"}),
        ("DirectRunner", (), "direct", ALL_HERE),
        ("directrunner", (), "direct", ALL_HERE),
        ("SwitchingDirectRunner", (), "direct", ALL_HERE),
        ("FnApiRunner", (), "direct", ALL_HERE),
        ("FnApiRunner", ("--direct_running_mode=multi_processing", "--direct_running_mode=in_memory"), "direct", ALL_HERE),
        ("DirectRunner", ELSEWHERE, "direct", ALL_HERE),
        ("DirectRunner", ("--flink_submit_uber_jar",), "direct", ALL_HERE),
        ("PrismRunner", (), "prism", {"encodes_here"}),
        ("PrismRunner", ("--direct_running_mode=multi_processing",), "prism", {"encodes_here"}),  # means nothing to it
        ("PrismRunner", EXTERNAL, "prism", set()),
        ("PrismRunner", ELSEWHERE, "prism", {"encodes_here"}),
        ("PrismRunner", (*ELSEWHERE, *EXTERNAL), "prism", {"outlives_launcher"}),
        ("PrismRunner", ("--experiments=use_loopback_process_worker",), "prism", set()),
        ("PortableRunner", ELSEWHERE, "portable", {"outlives_launcher"}),
        ("PortableRunner", ("--job_endpoint=embed", *EXTERNAL), "portable", set()),
        ("PortableRunner", (*ELSEWHERE, "--environment_type=LOOPBACK"), "portable", {"encodes_here"}),
        ("FlinkRunner", ("--flink_master=host:1",), "other", set()),
        ("FlinkRunner", ELSEWHERE, "other", set()),
        (FLINK, (*ELSEWHERE, *EXTERNAL), "other", {"outlives_launcher"}),
        ("FlinkRunner", ("--flink_master", "http://host:8081", "--flink_submit_uber_jar"), "other", {"outlives_launcher"}),
        ("SparkRunner", ("--spark_submit_uber_jar", "--spark_rest_url", "http://host:1"), "other", {"outlives_launcher"}),
        ("DataflowRunner", DATAFLOW, "dataflow", {"is_dataflow", "outlives_launcher"}),
        (DATAFLOW_IN_FULL, DATAFLOW, "dataflow", {"is_dataflow", "outlives_launcher"}),
        ("DataflowRunner", (*DATAFLOW, "--environment_type=LOOPBACK"), "dataflow", {"is_dataflow", "outlives_launcher"}),
        ("my_package.MyRunner", (), "other", set()),
        ("my_package.DirectRunner", (), "other", set()),
        ("my_dataflow_tools.DataflowRunner", (), "other", set()),
    ],
    ids=lambda value: " ".join(sorted(value)) if isinstance(value, set) else str(value),
)  # fmt: skip
def test_what_follows_from_a_runner_and_its_arguments(
    runner: str | None, args: tuple[str, ...], kind: str, true: set[str]
) -> None:
    engine = Engine(runner, args)

    engine.check()
    assert (engine.kind, {name for name in MEMBERS if getattr(engine, name)}) == (kind, true)


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ((), None),
        (("--region", "a"), "a"),
        (("--region=a=b",), "a=b"),
        (("--region=a", "--region", "b"), "b"),
        (("--region", "a", "--region=b"), "b"),
        (("--region",), None),
        (("--region=",), ""),
        (("--regions=a", "region=b"), None),
    ],
)
def test_the_last_value_of_an_argument_counts(args: tuple[str, ...], value: str | None) -> None:
    assert Engine("R", args).arg("region") == value


RUNNERS = "Use DirectRunner, FnApiRunner, PrismRunner, PortableRunner, FlinkRunner, SparkRunner or DataflowRunner"
NO_RUNNER = (
    f"Beam has no such runner, or none for builds. {RUNNERS}; or another package's, by its full name "
    "(my_package.MyRunner)."
)
NO_TEST_RUNNERS = ("TestDirectRunner", "apache_beam.runners.direct.test_direct_runner.TestDirectRunner")
OF_BEAM = (
    "If it is an option of Apache Beam, it needs --runner (for example --runner DirectRunner). For shardfeed's own flags see "
    "`shardfeed build --help`."
)
OF_DIRECT = "is an option of Beam's DirectRunner. Leave it out: a build without --runner uses all cores by itself."
PRISM = "Build Prism with make engines (.engines/), or name where it is."
EXAMPLES = "(docs/how-to/engines.md has examples)."


@pytest.mark.parametrize(
    ("runner", "args", "message"),
    [
        (None, "--direct_runner_bundle_repeat 2", f"unknown argument --direct_runner_bundle_repeat. {OF_BEAM}"),
        (None, "--direct_num_workers=2", f"--direct_num_workers {OF_DIRECT}"),
        (None, "--direct_running_mode", f"--direct_running_mode {OF_DIRECT}"),
        (
            "DaskRunner",
            "",
            "--runner DaskRunner: Beam's Dask runner gives wrong results for graphs with side branches (it runs only the last "
            f"one, and exits 0). {RUNNERS}.",
        ),
        *(
            (name, "", f"--runner {name}: {NO_RUNNER}")
            for name in ("NoSuchRunner", "", "dataflow", ".MyRunner", *NO_TEST_RUNNERS)
        ),
        (
            "fnapirunner",
            "--direct_num_workers=2 --direct_running_mode multi_processing",
            "--direct_running_mode multi_processing: in this mode the build waits for ever if one of its worker processes dies. "
            "Leave out --runner fnapirunner and Beam's flags: a build without --runner uses all cores by itself. Or keep "
            "--runner fnapirunner without this flag.",
        ),
        ("PrismRunner", "--prism_location /", f"--prism_location / is not a file. {PRISM}"),
        ("PrismRunner", "--prism_location=/no/prism", f"--prism_location /no/prism does not exist. {PRISM}"),
        (
            "PortableRunner",
            "",
            f"--runner PortableRunner also needs --job_endpoint HOST:PORT, where the engine's job service listens {EXAMPLES}",
        ),
        (
            "PortableRunner",
            "--job_endpoint localhost",
            "--job_endpoint localhost names no port. Give HOST:PORT, where the engine's job service listens, such as "
            "localhost:8099.",
        ),
        (
            "PortableRunner",
            "--job_endpoint=localhost:1 --environment_type=EXTERNAL",
            f"--environment_type EXTERNAL also needs --environment_config HOST:PORT, where the worker pool listens {EXAMPLES}",
        ),
        (
            "PortableRunner",
            "--job_endpoint=localhost:1 --environment_type=PROCESS --environment_config=",
            '--environment_type PROCESS also needs --environment_config \'{"command": "/opt/beam/boot"}\', the program that '
            f"starts a worker {EXAMPLES}",
        ),
        (
            "PrismRunner",
            "--environment_type=PROCESS --environment_config=/opt/beam/boot",
            "--environment_type PROCESS: Prism starts the program with its worker's id in quotes, which it then does not know, "
            f"and would wait for ever. Leave it out, or give EXTERNAL with a worker pool {EXAMPLES}",
        ),
        (
            "PrismRunner",
            "--environment_type loopback",
            "--environment_type loopback: allowed are DOCKER, PROCESS, EXTERNAL, LOOPBACK, in capitals, and Beam's own "
            "identifiers (beam:env:…); docs/how-to/engines.md has examples.",
        ),
    ],
)
def test_what_an_engine_cannot_run_is_refused_before_it_is_started(runner: str | None, args: str, message: str) -> None:
    with pytest.raises(UsageError) as found:
        Engine(runner, tuple(args.split())).check()

    assert str(found.value) == message


@pytest.mark.parametrize(
    ("args", "region", "missing"),
    [
        ((), None, "--project my-project, --region us-central1, --temp_location gs://bucket/folder"),
        (("--staging_location=gs://bucket/s", "--project="), "europe-west1", "--project my-project"),
    ],
)
def test_dataflow_needs_project_region_and_a_place_for_files(
    args: tuple[str, ...], region: str | None, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    if region is not None:
        monkeypatch.setenv("CLOUDSDK_COMPUTE_REGION", region)

    with pytest.raises(UsageError) as found:
        Engine("DataflowRunner", args).check()

    assert str(found.value) == (
        f"--runner DataflowRunner also needs {missing}. run_dataflow.sh gives all of them: PROJECT=… REGION=… "
        "./run_dataflow.sh INPUT OUTPUT"
    )


HERE = "the work is done in this process and its children"
STARTED = "--runner PrismRunner without a --job_endpoint elsewhere starts its engine here"
THREADS = "with LOOPBACK workers are threads of this process"


@pytest.mark.parametrize(
    ("runner", "args", "why"),
    [
        ("DirectRunner", (), HERE),
        ("PrismRunner", EXTERNAL, STARTED),
        ("PortableRunner", (*ELSEWHERE, "--environment_type=LOOPBACK"), THREADS),
    ],
    ids=["in process", "Prism", "LOOPBACK"],
)
def test_a_job_that_ends_with_the_launcher_cannot_be_left_running(runner: str, args: tuple[str, ...], why: str) -> None:
    engine = Engine(runner, (*args, "--no_wait_until_finish"))

    assert not engine.waits_for_end
    with pytest.raises(UsageError) as refused:
        engine.check()
    assert str(refused.value) == (
        f"--no_wait_until_finish: {why}, so the build ends with this command and cannot be left running. Leave the option out "
        "(a build that was stopped is carried on by the same command), or use an engine that runs elsewhere "
        "(docs/how-to/engines.md)."
    )


def test_a_job_elsewhere_may_be_left_running() -> None:
    engine = Engine("PortableRunner", (*ELSEWHERE, "--no_wait_until_finish"))

    engine.check()
    assert not engine.waits_for_end
    assert Engine("PortableRunner", ELSEWHERE).waits_for_end
