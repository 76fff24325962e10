"""Ctrl-C and SIGTERM before a run listens for them."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.kit.commands import command, environment, photo, write_photos
from tests.kit.servers.gcs_requests import Kind
from tests.kit.servers.strict_gcs import StrictGCS

# Runs at the start of the process, which gets a signal when it begins to import a module, and then
# stands still.
INTERRUPTED = """
import signal, sys, time
class Finder:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal({number})
            time.sleep(60)
sys.meta_path.insert(0, Finder)
"""

# ``shardfeed``, which waits for ever in the look at what the output holds.
AT_THE_OUTPUT = """
import sys, threading
from shardfeed import __main__
from shardfeed.pipeline import already_built
def gate(*args):
    print("at the gate", flush=True)
    threading.Event().wait()
already_built.has_manifest = gate
sys.exit(__main__.main())
"""

STOPPED = "shardfeed: stopped before build was complete; rerun the same command.\n"


def _interrupted(
    tmp_path: Path, module: str, number: signal.Signals, *args: str | Path
) -> subprocess.CompletedProcess[str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(INTERRUPTED.format(module=module, number=int(number)))
    env = environment(PYTHONPATH=f"{site}:{environment()['PYTHONPATH']}")
    return subprocess.run(command(*args), capture_output=True, text=True, env=env, check=False)


@pytest.fixture
def build(tmp_path: Path) -> tuple[str, ...]:
    write_photos(tmp_path / "in", cat=2, dog=2)
    return ("build", "--input", f"{tmp_path}/in", "--output", f"{tmp_path}/out", "--image_size", "16")


@pytest.mark.parametrize(
    ("number", "module"),
    [(signal.SIGINT, "shardfeed.errors"), (signal.SIGTERM, "shardfeed.pipeline.cli.flags")],
)
def test_a_signal_while_the_command_line_is_imported_is_the_line_that_comes_later(
    tmp_path: Path, build: tuple[str, ...], module: str, number: signal.Signals
) -> None:
    ended = _interrupted(tmp_path, module, number, *build)
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "", STOPPED)


@pytest.mark.parametrize(
    ("args", "what"), [(("verify", "/no/such"), "verify"), (("--version",), "the command"), ((), "the command")]
)
def test_the_line_names_the_command(tmp_path: Path, args: tuple[str, ...], what: str) -> None:
    ended = _interrupted(tmp_path, "shardfeed.cli.main", signal.SIGINT, *args)
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "", STOPPED.replace("build", what))


def test_a_signal_while_beam_is_imported_for_its_flags_is_one_line_and_exit_4(
    tmp_path: Path, build: tuple[str, ...]
) -> None:
    ended = _interrupted(tmp_path, "apache_beam", signal.SIGINT, *build, "--runner", "DirectRunner")
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "", STOPPED)
    assert not (tmp_path / "out").exists()


def test_a_signal_while_the_output_is_looked_at_is_one_line_and_exit_4(build: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", AT_THE_OUTPUT, *build]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stdout is not None
        assert select.select([child.stdout], [], [], 60)[0]
        assert child.stdout.readline() == "at the gate\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (4, "", STOPPED)


def test_signals_that_the_build_was_started_to_ignore_stay_ignored(build: tuple[str, ...]) -> None:
    program = """
import signal
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
from shardfeed import __main__
from shardfeed.pipeline import already_built
already_built.has_manifest = lambda store: signal.raise_signal(signal.SIGINT) or signal.raise_signal(signal.SIGTERM)
raise SystemExit(__main__.main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, *build], capture_output=True, text=True, env=environment(), check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Built: ")


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, "list"), (signal.SIGTERM, "get")])
def test_a_signal_ends_a_plan_whose_bucket_does_not_answer(tmp_path: Path, number: signal.Signals, kind: Kind) -> None:
    gate = threading.Event()
    with StrictGCS() as server:
        for name in ("cat/1.jpg", "dog/1.jpg"):
            server.objects.put("photos", f"in/{name}", photo(1))
        server.inject("call", kind, matches=lambda request: request.bucket == "photos", times=None, action=gate.wait)
        args = ("plan", "--input", "gs://photos/in", "--output", str(tmp_path / "out"))
        with subprocess.Popen(
            command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(STORAGE_EMULATOR_HOST=server.url),
        ) as child:  # fmt: skip
            while not server.counts()[kind] and child.poll() is None:
                time.sleep(0.01)
            child.send_signal(number)
            try:
                out, err = child.communicate(timeout=60)
            finally:
                gate.set()
    assert (child.returncode, out, err) == (4, "", STOPPED.replace("build", "plan"))
