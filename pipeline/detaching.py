"""Which jobs go on without the launcher, and the options that only they can honour.

An option that cannot be honoured is refused, not ignored: who asks to leave a job running must not find that it ended with the
terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardfeed.errors import UsageError

if TYPE_CHECKING:  # the config checks itself by this module
    from pipeline.config import BuildConfig

_NO_WAIT = "--no_wait_until_finish"  # Beam's


def needs_us(config: BuildConfig) -> bool:
    """Whether a job ends with this process, because its engine or its workers are threads or children of it."""
    engine = config.engine.rpartition(".")[2].lower()
    if engine == "dataflowrunner" or {"--flink_submit_uber_jar", "--spark_submit_uber_jar"} & set(config.beam_args):
        return False
    if engine == "fnapirunner" or config.beam_arg("job_endpoint") in (None, "embed"):
        return True
    # Beam's default is a thread of the launcher for the engines that it can start itself, and a container for the others.
    default = "DOCKER" if engine == "portablerunner" else "LOOPBACK"
    return (config.beam_arg("environment_type") or default) == "LOOPBACK"


def waits_for_end(config: BuildConfig) -> bool:
    """Whether the launcher stays until the job has ended."""
    return _NO_WAIT not in config.beam_args


def check_detaching(config: BuildConfig) -> None:
    """Raises UsageError for an option that leaves a job running which ends with this process.

    ``--on_interrupt cancel`` is what happens to such a job anyway.
    """
    asked = "--on_interrupt detach" if config.on_interrupt == "detach" else "" if waits_for_end(config) else _NO_WAIT
    if asked and needs_us(config):
        raise UsageError(
            f"{asked}: {_why(config)}, so the build ends with this command and cannot be left running. Leave the option out (a "
            "build that was stopped is carried on by the same command), or use an engine that runs elsewhere (docs/engines.md)."
        )


def _why(config: BuildConfig) -> str:
    if config.engine == "FnApiRunner":
        return "without an engine the work is done in this process and its children"
    if config.beam_arg("job_endpoint") in (None, "embed"):
        return f"--runner {config.runner} without a --job_endpoint elsewhere starts its engine here"
    return "with LOOPBACK workers are threads of this process"
