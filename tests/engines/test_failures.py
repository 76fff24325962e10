"""An engine, a worker or the store fails: a message, exit 4, and a rerun completes."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from apache_beam.version import __version__ as beam_version

from shardfeed.processes import descendants
from tests.engines.conftest import FLAGS, StuckBuild, images_of
from tests.engines.launcher import SECONDS, launched, tell_pid
from tests.kit import builds, disk
from tests.kit.cloud import IN, build_args, photo_server
from tests.kit.servers import engines as servers
from tests.kit.servers.engines import Server
from tests.pipeline.gated import FREE, close_gate


def test_a_killed_worker_is_exit_4_and_the_same_command_encodes_the_parts_that_are_not_finished(
    stuck_build: StuckBuild, request: pytest.FixtureRequest, reference: dict[str, str], tmp_path: Path
) -> None:
    with stuck_build() as stuck:
        os.kill(stuck.worker, signal.SIGKILL)
        ended = stuck.launcher.ended()
        assert (ended.code, ended.out) == (4, "")
        assert re.search(
            r"^shardfeed: the engine gave up: Pipeline job-001 failed in state FAILED: .*SDK worker disconnected",
            ended.err,
            re.MULTILINE,
        )
        assert "Traceback" not in ended.err
        assert "manifest.json" not in disk.files(tmp_path / "out")

        kept = images_of((tmp_path / "out").glob("_parts/*/*/*.json"))
        encoded_images: Callable[[], int] = request.getfixturevalue("encoded_images")  # now: it replaces the hook
        again = builds.run(*stuck.args, *stuck.engine.flags, env={"TMPDIR": str(tmp_path)})
    assert (again.code, again.err) == (0, "")
    assert kept > 0
    assert encoded_images() in (62 - kept, 61 - kept)  # the empty file is not decoded
    assert disk.digests(tmp_path / "out") == reference


def test_a_killed_prism_whose_worker_is_a_thread_of_the_launcher_is_said_in_one_line_and_the_same_command_completes(
    prism_program: Path, photos: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    engine = ("--runner", "PrismRunner", "--prism_location", str(prism_program))
    args = builds.build_args(photos, tmp_path / "out", *FLAGS, *engine)
    with launched(args, tmp_path, until=partial(tell_at_gate, gate)) as launcher:
        (prism,) = [pid for pid in descendants(launcher.pid) if "prism" in Path(f"/proc/{pid}/cmdline").read_text()]
        assert os.getpriority(os.PRIO_PROCESS, prism) == 19
        os.kill(prism, signal.SIGKILL)
        ended = launcher.ended()
    assert (ended.code, ended.out) == (4, "")
    lines = [line for line in ended.err.splitlines() if line]
    assert len(lines) == 1, ended.err
    assert re.fullmatch(r"shardfeed: the engine was lost: .*\. Rerun the same command to carry on\.", lines[0])
    assert "manifest.json" not in disk.files(tmp_path / "out")

    again = builds.run(*args, env={"TMPDIR": str(tmp_path)})
    assert (again.code, again.err) == (0, "")
    assert disk.digests(tmp_path / "out") == reference


def tell_at_gate(gate: Path, pipe: Path) -> None:
    """A hook: after five images the encoder writes which process this is, and waits at the gate."""

    def wait() -> None:
        tell_pid(pipe)
        gate.read_bytes()

    close_gate(wait, FREE)


def test_an_engine_by_another_name_does_not_outlive_its_launcher(
    prism_program: Path, photos: Path, tmp_path: Path
) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    program = str(shutil.copy(prism_program, tmp_path / "engine-p"))
    assert not re.search("prism|beam", program)
    args = builds.build_args(photos, tmp_path / "out", "--runner", "PrismRunner", "--prism_location", program)
    with launched(args, tmp_path, until=partial(tell_at_gate, gate)) as launcher:
        (engine,) = descendants(launcher.pid)
        handle = os.pidfd_open(engine)
        os.kill(engine, signal.SIGSTOP)  # else it ends by itself, as soon as it logs to nobody
        launcher.send_signal(signal.SIGTERM)
        assert launcher.ended().code == 4
        left = not select.select([handle], [], [], SECONDS)[0]
        if left:
            os.kill(engine, signal.SIGKILL)
        os.close(handle)
    assert not left


def test_a_worker_pool_that_is_not_there_is_named(prism_program: Path, photos: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        nowhere = Server(ended, 1)
    with servers.prism(prism_program, nowhere, tmp_path) as engine:
        failed = builds.run(*builds.build_args(photos, tmp_path / "out", *FLAGS, *engine.flags))

    assert (failed.code, failed.out) == (4, "")
    assert re.search(
        rf"^shardfeed: the engine was lost: .*\. See that it runs, and the workers at {nowhere.address}, then rerun the same "
        r"command to carry on\.\n\Z",
        failed.err,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("<html>Not Found</html>", "[Errno 8] Exec format error: '{}'"),
        ("#!/bin/sh\nexit 0\n", "it has no option --job_port"),
    ],
    ids=["a page", "another program"],
)
def test_what_is_no_prism_is_named(photos: Path, tmp_path: Path, text: str, wrong: str) -> None:
    program = tmp_path / "prism"
    program.write_text(text)
    program.chmod(0o755)
    args = builds.build_args(photos, tmp_path / "out", *FLAGS)
    failed = builds.run(*args, "--runner", "PrismRunner", "--prism_location", str(program))
    assert (failed.code, failed.out) == (2, "")
    assert failed.err == (
        f"shardfeed: --prism_location: {program} is no Prism for this machine: {wrong.format(program)}. Build it with make "
        f"engines, then give --prism_location .engines/prism-{beam_version}.\n"
    )


UNFIT = "--runner {} does not start with these options: {}. docs/how-to/engines.md has what each engine needs."


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("SparkRunner --spark_submit_uber_jar", UNFIT.format("SparkRunner", "Option spark_rest_url must be set")),
        (
            "json.Runner",
            "Beam refuses --runner json.Runner with these options: module 'json' has no attribute 'Runner'",
        ),
    ],
    ids=["an option that another one needs", "a module without the runner"],
)
def test_options_of_which_beam_makes_no_job_are_no_reason_to_rerun(
    photos: Path, tmp_path: Path, flags: str, said: str
) -> None:
    failed = builds.build(photos, tmp_path / "out", "--runner", *flags.split(), env={"TMPDIR": str(tmp_path)})
    assert (failed.code, failed.out, failed.err) == (2, "", f"shardfeed: {said}\n")


def test_a_port_on_which_somebody_else_listens_is_no_reason_to_rerun_either(
    photos: Path, tmp_path: Path, prism_program: Path
) -> None:
    with socket.create_server(("", 0)) as server:
        port = str(server.getsockname()[1])
        flags = ("--runner", "PrismRunner", "--prism_location", str(prism_program), "--job_port", port)
        failed = builds.build(photos, tmp_path / "out", *flags, env={"TMPDIR": str(tmp_path)})
    assert (failed.code, failed.out) == (2, "")
    assert "Traceback" not in failed.err
    wrong = UNFIT.format("PrismRunner", "Service failed to start up with error 2")
    assert failed.err.splitlines()[-1] == f"shardfeed: {wrong}"
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_worth_another_try(photos: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(jar := tmp_path / "server.jar", "w") as made:
        made.writestr("name", "text")
    flags = ("--flink_master", "http://localhost:1", "--flink_submit_uber_jar", "--flink_job_server_jar", str(jar))
    failed = builds.build(photos, tmp_path / "out", "--runner", "FlinkRunner", *flags, env={"TMPDIR": str(tmp_path)})
    assert (failed.code, failed.out) == (4, "")
    assert re.fullmatch(
        r"shardfeed: no engine answers: .*localhost.*refused.*\. Start it, then rerun the same command\.\n", failed.err
    )


def test_a_prism_that_cannot_be_fetched_is_not_the_engine_s_failure(photos: Path, tmp_path: Path) -> None:
    args = builds.build_args(photos, tmp_path / "out", *FLAGS, "--runner", "PrismRunner")
    failed = builds.run(*args, env={"HOME": str(tmp_path), "https_proxy": "http://127.0.0.1:1"})
    assert (failed.code, failed.out) == (2, "")
    assert re.fullmatch(
        r"shardfeed: --runner PrismRunner has no Prism: Unable to fetch remote prism binary at https://\S+: .*refused.*"
        rf"\. Build it with make engines, then give --prism_location \.engines/prism-{beam_version}\.\n",
        failed.err,
    )


AGAIN = ", 10 times. Run the same command again later.\n"

# A worker that finds its store where the test says, and does not wait between its attempts.
IMPATIENT = """
os.environ.update({env!r})
from shardfeed.storage import retry
from shardfeed.transforms.pool import pool
retry.sleep = lambda seconds: None
pool.MOST_PROCESSES = 0  # which would wait in processes of their own
"""


def test_a_store_that_fails_a_worker_is_named_by_the_launcher_and_the_same_command_completes(
    prism_program: Path, pool: Server, hook: Path, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with photo_server(photos) as server:
        args = build_args(IN, out, *FLAGS)
        env = {"STORAGE_EMULATOR_HOST": server.url, "HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": ""}
        hook.write_text(IMPATIENT.format(env=env))
        fault = server.inject("status", "get", "in/dog/004.jpg", times=None)
        with servers.prism(prism_program, pool, tmp_path) as engine:
            failed = builds.run(*args, *engine.flags, env={**env, "TMPDIR": str(tmp_path)})
        left = disk.files(out)
        fault.times = 0
        again = builds.run(*args, env=env)

    message = "shardfeed: cannot get gs://photos/in/dog/004.jpg: "
    assert (failed.code, failed.out, "Traceback" in failed.err) == (4, "", False)
    assert failed.err.startswith(message) and "503" in failed.err and failed.err.endswith(AGAIN)
    assert "manifest.json" not in left
    assert (again.code, again.err) == (0, "")


def test_an_engine_that_does_not_answer_is_named(tmp_path: Path, photos: Path) -> None:
    nowhere = ("--runner", "PortableRunner", "--job_endpoint", "localhost:1", "--job_server_timeout", "1")
    ended = builds.run(*builds.build_args(photos, tmp_path / "out", *FLAGS, *nowhere))
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.splitlines()[-1] == (
        "shardfeed: no engine answers at --job_endpoint localhost:1 (waited for 1 s, --job_server_timeout). "
        "Start it, then rerun the same command."
    )


def test_a_local_build_does_not_start_prism_even_where_it_is_told_where_prism_is(photos: Path, tmp_path: Path) -> None:
    program = tmp_path / "prism"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-started\nexec {sys.executable} -c 'input()'\n")
    program.chmod(0o755)
    ended = builds.built(photos, tmp_path / "out", *builds.DIRECT, "--prism_location", str(program))
    assert ended.err == ""
    assert not (tmp_path / "was-started").exists()
