"""Which runner of Apache Beam drives a build, and what follows from that.

``Engine`` is the only place that interprets a runner's name; everything else asks its members.
A runner of another package is of kind "other", whatever its class is called.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from typing import Literal

from shardfeed.errors import UsageError, clip

EngineKind = Literal["local", "direct", "prism", "portable", "dataflow", "other"]

# Beam's runners that builds may use. Some others look for Prism on the network (TestDirectRunner).
_RUNNERS: dict[str, EngineKind] = {
    "DirectRunner": "direct",
    "FnApiRunner": "direct",
    "PrismRunner": "prism",
    "PortableRunner": "portable",
    "FlinkRunner": "other",
    "SparkRunner": "other",
    "DataflowRunner": "dataflow",
}
_KINDS: dict[str, EngineKind] = {  # Beam ignores the case of a runner's name
    "switchingdirectrunner": "direct",
    **{name.lower(): kind for name, kind in _RUNNERS.items()},
}
_NO_WAIT = "--no_wait_until_finish"
# With these, the cluster gets the whole job over HTTP.
_UBER_JARS = frozenset({"--flink_submit_uber_jar", "--spark_submit_uber_jar"})

# Where an engine may run the workers' code, and what --environment_config must then hold.
_ENVIRONMENTS = {
    "DOCKER": "",
    "PROCESS": '\'{"command": "/opt/beam/boot"}\', the program that starts a worker',
    "EXTERNAL": "HOST:PORT, where the worker pool listens",
    "LOOPBACK": "",
}


@dataclass(frozen=True)
class Engine:
    """A runner as the user named it, and Beam's arguments.

    Without a runner the build runs on this machine without Beam. ``on_interrupt``: what Ctrl-C does
    to a job that goes on without this process, "cancel" or "detach". None asks on a terminal and
    detaches elsewhere.
    """

    runner: str | None = None
    args: tuple[str, ...] = ()
    on_interrupt: str | None = None

    @property
    def kind(self) -> EngineKind:
        """What sort of engine this is. Only Beam's own runners are told apart."""
        if self.runner is None:
            return "local"
        return _KINDS.get(_class_name(self.runner), "other") if _is_of_beam(self.runner) else "other"

    @property
    def is_local(self) -> bool:
        """Whether the build runs without Beam."""
        return self.kind == "local"

    @property
    def is_dataflow(self) -> bool:
        """Whether the build is a job on Google Cloud Dataflow."""
        return self.kind == "dataflow"

    @property
    def label(self) -> str:
        """The engine as ``run.json`` records it: "local", or the runner as the user named it."""
        return "local" if self.runner is None else self.runner

    @property
    def in_process(self) -> bool:
        """Whether this process itself runs every step of the build."""
        return self.kind in ("local", "direct")

    @property
    def encodes_here(self) -> bool:
        """Whether this process encodes images: it runs the steps, or a worker is a thread of it."""
        if self.in_process or self.is_dataflow:
            return self.in_process
        if any("use_loopback_process_worker" in arg for arg in self.args):
            return False
        default = "LOOPBACK" if self.kind == "prism" else ""  # the default of other engines depends on where they run
        return (self.arg("environment_type") or default) == "LOOPBACK"

    @property
    def outlives_launcher(self) -> bool:
        """Whether the job goes on when this process ends.

        It does if neither its engine nor its workers are threads or children of this process.
        """
        if self.in_process:
            return False
        if self.is_dataflow or _UBER_JARS.intersection(self.args):
            return True
        if self._starts_engine:
            return False
        # If Beam can start the engine, its workers are threads of the launcher; else containers.
        default = "DOCKER" if self.kind == "portable" else "LOOPBACK"
        return (self.arg("environment_type") or default) != "LOOPBACK"

    @property
    def waits_for_end(self) -> bool:
        """Whether the launcher stays until the job has ended."""
        return _NO_WAIT not in self.args

    @property
    def _starts_engine(self) -> bool:
        return self.arg("job_endpoint") in (None, "embed")

    def arg(self, name: str) -> str | None:
        """The last value of Beam's argument ``--name``, or None if it is not given."""
        flag, value = f"--{name}", None
        for arg, after in itertools.zip_longest(self.args, self.args[1:]):
            if arg == flag:
                value = after
            elif arg.startswith(flag + "="):
                value = arg[len(flag) + 1 :]
        return value

    def check(self) -> None:
        """Refuses what this engine cannot run, before Beam is imported or the input is listed.

        Raises:
            UsageError: the first thing that is wrong.
        """
        if self.runner is None:
            _check_no_arguments(self.args)
        else:
            _check_runner(self.runner)
            _check_direct(self)
            _check_dataflow(self)
            _check_prism(self)
            _check_job_service(self)
            _check_environment(self)
        if not self.waits_for_end:
            self._check_leaving(_NO_WAIT)
        if self.on_interrupt == "detach":
            self._check_leaving("--on_interrupt detach")

    def _check_leaving(self, option: str) -> None:
        """Refuses an ``option`` that leaves the job running, if the job ends with this process.

        If the option were ignored, the user would find out only later.

        Raises:
            UsageError: the job ends with this process.
        """
        if self.outlives_launcher:
            return
        if self.in_process:
            why = "the work is done in this process and its children"
        elif self._starts_engine:
            why = f"--runner {self.runner} without a --job_endpoint elsewhere starts its engine here"
        else:
            why = "with LOOPBACK workers are threads of this process"
        raise UsageError(
            f"{option}: {why}, so the build ends with this command and cannot be left running. Leave the option out (a build "
            "that was stopped is carried on by the same command), or use an engine that runs elsewhere (docs/how-to/engines.md)."
        )


def _class_name(runner: str) -> str:
    return runner.rpartition(".")[2].lower()


def _is_of_beam(runner: str) -> bool:
    return runner.rpartition(".")[0].partition(".")[0] in ("", "apache_beam")


def _check_no_arguments(args: tuple[str, ...]) -> None:
    if not args:
        return
    flag = args[0].partition("=")[0]
    if flag in ("--direct_num_workers", "--direct_running_mode"):
        raise UsageError(
            f"{flag} is an option of Beam's DirectRunner. Leave it out: a build without --runner uses all cores by itself."
        )
    if not flag.startswith("-"):  # such as a glob that the shell has expanded
        raise UsageError(
            f"{clip(flag)} belongs to no flag. Name each input and the output by a flag: --input a/ --input b/ --output out/. "
            "Quote a glob, or a name with spaces: --input 'photos/*/*.jpg'"
        )
    raise UsageError(
        f"unknown argument {clip(flag)}. If it is an option of Apache Beam, it needs --runner (for example --runner "
        "DirectRunner). For shardfeed's own flags see `shardfeed build --help`."
    )


def _check_runner(runner: str) -> None:
    """Beam's short forms (``dataflow``) are refused too, so that each runner has one name here."""
    *others, last = _RUNNERS
    instead = f"Use {', '.join(others)} or {last}"
    if "dask" in runner.lower():
        raise UsageError(
            f"--runner {clip(runner)}: Beam's Dask runner gives wrong results for graphs with side branches (it runs only the "
            f"last one, and exits 0). {instead}."
        )
    if _is_of_beam(runner) and _class_name(runner) not in _KINDS:
        raise UsageError(
            f"--runner {clip(runner)}: Beam has no such runner, or none for builds. {instead}; or another package's, by its full "
            "name (my_package.MyRunner)."
        )


def _check_direct(engine: Engine) -> None:
    if engine.kind == "direct" and engine.arg("direct_running_mode") == "multi_processing":
        raise UsageError(
            "--direct_running_mode multi_processing: in this mode the build waits for ever if one of its worker processes dies. "
            f"Leave out --runner {engine.runner} and Beam's flags: a build without --runner uses all cores by itself. Or keep "
            f"--runner {engine.runner} without this flag."
        )


def _check_dataflow(engine: Engine) -> None:
    """Names everything that is missing. Beam would ask for each alone, after the listing."""
    if not engine.is_dataflow:
        return
    region = os.environ.get("CLOUDSDK_COMPUTE_REGION")  # Beam takes it too
    missing = [
        f"--{name} {example}"
        for name, example, otherwise in (
            ("project", "my-project", None),
            ("region", "us-central1", region),
            ("temp_location", "gs://bucket/folder", engine.arg("staging_location")),
        )
        if not (engine.arg(name) or otherwise)
    ]
    if missing:
        raise UsageError(
            f"--runner {engine.runner} also needs {', '.join(missing)}. run_dataflow.sh gives all of them: PROJECT=… REGION=… "
            "./run_dataflow.sh INPUT OUTPUT"
        )


def _check_prism(engine: Engine) -> None:
    if engine.kind != "prism":
        return
    program = engine.arg("prism_location")
    if program is not None and "://" not in program and not os.path.isfile(program):
        wrong = "is not a file" if os.path.exists(program) else "does not exist"
        raise UsageError(
            f"--prism_location {clip(program)} {wrong}. Build Prism with make engines (.engines/), or name where it is."
        )


def _check_job_service(engine: Engine) -> None:
    endpoint = engine.arg("job_endpoint")
    if engine.kind == "portable" and endpoint is None:
        raise UsageError(
            "--runner PortableRunner also needs --job_endpoint HOST:PORT, where the engine's job service listens "
            "(docs/how-to/engines.md has examples)."
        )
    if endpoint not in (None, "embed") and not re.search(r":\d+$", endpoint):
        raise UsageError(
            f"--job_endpoint {clip(endpoint)} names no port. Give HOST:PORT, where the engine's job service listens, such as "
            "localhost:8099."
        )


def _check_environment(engine: Engine) -> None:
    """Checks how workers start: an engine without workers looks lost, and no rerun would help."""
    environment = engine.arg("environment_type")
    if environment and environment not in _ENVIRONMENTS and not environment.startswith("beam:env:"):
        raise UsageError(
            f"--environment_type {clip(environment)}: allowed are {', '.join(_ENVIRONMENTS)}, in capitals, and Beam's own "
            "identifiers (beam:env:…); docs/how-to/engines.md has examples."
        )
    if engine.kind == "prism" and environment == "PROCESS":  # tried with 2.77
        raise UsageError(
            "--environment_type PROCESS: Prism starts the program with its worker's id in quotes, which it then does not know, "
            "and would wait for ever. Leave it out, or give EXTERNAL with a worker pool (docs/how-to/engines.md has examples)."
        )
    wanted = _ENVIRONMENTS.get(environment or "")
    if wanted and not (engine.arg("environment_config") or engine.arg("environment_options")):
        raise UsageError(
            f"--environment_type {environment} also needs --environment_config {wanted} (docs/how-to/engines.md has examples)."
        )
