"""Whatever happens to the processes beside a build, it ends as it would without them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.pipeline import local
from shardfeed.transforms.elements import pack_ref
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.pool import pool, program
from shardfeed.transforms.pool.watch import shared_file
from shardfeed.transforms.pool.worker import READY, Answer
from shardfeed.transforms.run.state import Run
from tests.kit import builds, disk, hooks
from tests.kit.commands import environment
from tests.kit.images import make_photos, photo, write
from tests.transforms.conftest import OPTIONS, PLAN, Folder

ONE = partial(hooks.processes, 1)
TWO = partial(hooks.processes, 2)
LOST = "a process that encodes ended with code"
ALONE = "The images that it had in hand are made one by one, each in a process of its own.\n"
WITHOUT = "The build goes on without it.\n"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 photos of two classes."""
    return make_photos(tmp_path_factory.mktemp("input") / "photos", each=40)


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a build without other processes."""
    out = tmp_path_factory.mktemp("alone") / "out"
    builds.built(photos, out)
    return disk.digests(out)


@pytest.mark.parametrize("how", ["forks", "programs"])
def test_processes_make_the_parts_and_the_builder_none(
    how: str, photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    (log := tmp_path / "images").touch()
    more = [hooks.programs if how == "programs" else hooks.forks]
    builds.built(photos, tmp_path / "out", hooks=[TWO, partial(hooks.note_encoders, log), *more])
    builder, *encoders = map(int, log.read_text().split())
    assert builder not in encoders
    assert (len(encoders), len(set(encoders))) == (80, 2)
    assert disk.digests(tmp_path / "out") == alone


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def crash(pid: int) -> None:
    """Crashes a process when its interpreter can report that: right after its start it cannot."""
    while not _signals_caught(pid) & 1 << (signal.SIGSEGV - 1):
        os.sched_yield()
    os.kill(pid, signal.SIGSEGV)


def _signals_caught(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0], 16)


@pytest.mark.parametrize(
    ("part", "end", "said"),
    [(1, kill, "-9"), (0, crash, "-11 (Fatal Python error: Segmentation fault)")],
    ids=["killed", "crashed"],
)
def test_a_process_that_ends_costs_no_image_and_one_line_that_says_how(
    part: int, end: Callable[[int], None], said: str, photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    ended = builds.built(photos, tmp_path / "out", hooks=[partial(hooks.at_part_of_process, part, end), ONE])
    assert ended.err == f"{LOST} {said}. {ALONE}"
    assert disk.digests(tmp_path / "out") == alone


def test_processes_that_cannot_start_change_nothing_and_their_last_words_are_shown_once(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    ended = builds.built(photos, tmp_path / "out", "--threads", "3", hooks=[hooks.broken_processes, TWO])
    assert ended.err == f"{LOST} 1 (no such module). {WITHOUT}"
    assert disk.digests(tmp_path / "out") == alone


def test_an_interpreter_that_is_not_there_costs_one_line(photos: Path, alone: dict[str, str], tmp_path: Path) -> None:
    ended = builds.built(photos, tmp_path / "out", hooks=[partial(hooks.interpreter, str(tmp_path / "gone")), ONE])
    assert ended.err.startswith("no further process could be started to encode ([Errno 2] ")
    assert ended.err.count("\n") == 1
    assert disk.digests(tmp_path / "out") == alone


def test_an_error_in_a_process_is_reported_as_the_build_meets_it_itself(tmp_path: Path) -> None:
    one, two, out = make_photos(tmp_path / "one"), tmp_path / "two", tmp_path / "out"
    write(two, "cat/001.jpg", photo(1))
    ended = builds.build([one, two], out, hooks=[ONE])
    assert (ended.code, LOST in ended.err) == (2, False)
    assert f"cat/001.jpg is in two inputs: {one} and {two}" in ended.err
    assert not (out / "manifest.json").exists()


def test_a_program_that_forks_during_the_build_does_not_hold_it_up(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    builds.built(photos, tmp_path / "out", hooks=[partial(hooks.at_part_of_process, 0, fork_for_ever), ONE])
    assert disk.digests(tmp_path / "out") == alone


def fork_for_ever(_process: int) -> None:
    if os.fork() == 0:
        signal.pause()


def test_a_process_ends_when_its_builder_has_ended(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ours, theirs = Pipe()
    with start(theirs.fileno()) as process:
        theirs.close()
        ours.send((sys.path, ""))
        ours.send(os.getpid())
        ours.send((PLAN, EncoderSettings([str(folder.root)], OPTIONS, folder.run, 1)))
        assert ours.recv() == READY
        ours.send(("train", 0, [pack_ref(folder.add(b"cat/1.png"))]))
        answer = ours.recv()
        assert isinstance(answer, Answer)
        assert answer.made is not None
        assert (answer.split, answer.part, answer.made[0].records) == ("train", 0, 1)
        ours.close()  # as the system does it for a process that is killed
        assert process.wait(60) == 0


def test_a_process_ends_when_its_builder_has_ended_and_another_process_holds_the_pipe() -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    ours, theirs = Pipe()
    with start(theirs.fileno()) as process:
        theirs.close()
        ours.send((sys.path, ""))
        ours.send(dead.pid)
        assert process.wait(60) == 0


def test_a_decoder_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shardfeed.transforms.images.versions", raising=False)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(
        UsageError, match=r"^a decoder cannot be loaded: import of simplejpeg .*pip install --force-reinstall"
    ):
        pool.Pool().codec_versions(OPTIONS.image, Run("run", "out"))


def test_a_stopped_build_does_not_wait_for_a_process_that_tells_nothing(tmp_path: Path) -> None:
    processes, run = pool.Pool(), Folder(tmp_path).run
    silent = SimpleNamespace(ended=False, codec_versions=lambda _options: Future())
    vars(processes)["_processes"].append(silent)
    run.stop.set()
    with pytest.raises(IncompleteError):
        processes.codec_versions(OPTIONS.image, run)


def start(fd: int) -> subprocess.Popen[bytes]:
    with shared_file() as file:
        fds = fd, file.fileno()
        command = [sys.executable, "-I", "-c", program._BOOT + pool._BOOT, *map(str, fds)]
        return subprocess.Popen(command, pass_fds=fds)


def test_a_process_is_told_neither_to_list_nor_to_plan_nor_to_claim() -> None:
    code = "import sys, shardfeed.transforms.pool.worker, shardfeed.transforms.encode.part_encoder; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=builds.ROOT, capture_output=True, text=True, check=True)
    forbidden = {
        "shardfeed.transforms.inputs.listing",
        "shardfeed.transforms.planning.plan",
        "shardfeed.transforms.output.claim",
        "shardfeed.transforms.publish.manifest_commit",
        "shardfeed.pipeline.run_build",
    }
    assert forbidden.isdisjoint(ran.stdout.split())
    assert "shardfeed.transforms.encode.part_encoder" in ran.stdout.split()  # what it loads when it starts


def test_code_in_the_current_folder_is_not_run_and_the_input_is_not_written_to(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    for name in ("pickle.py", "struct.py"):
        (photos / name).write_text("open('RUN', 'w')")
    script = tmp_path / "bin" / "shardfeed"  # as pip makes it
    script.parent.mkdir()
    script.write_text(
        "import sys; from shardfeed.cli import main as cli; from shardfeed.pipeline import local; "
        "local.IMAGES_PER_PROCESS = 1; local.cores = lambda: 2; "  # no ``signals.install``: so they are programs
        "sys.exit(cli.main())"
    )
    before = sorted(photos.rglob("*"))
    env = environment()
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    build = [sys.executable, str(script), "build", "--input", ".", "--output", f"{tmp_path}/out", "--image_size", "8"]
    ended = subprocess.run(build, cwd=photos, env=env, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(photos.rglob("*")) == before


@pytest.mark.parametrize(
    ("threads", "cores", "images", "expected"),
    [
        pytest.param(2, 2, 10_000, 2, id="two cores"),
        pytest.param(1, 8, 10_000, 1, id="one thread asked for"),
        pytest.param(8, 2, 10_000, 2, id="more threads than cores"),
        pytest.param(8, 8, 10_000, 8, id="one thread per process"),
        pytest.param(8, 8, 250, 3, id="few images"),
        pytest.param(8, 8, 12, 1, id="very few images"),
    ],
)
def test_there_is_one_process_per_core(
    threads: int, cores: int, images: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "cores", lambda: cores)
    assert local.pool_size(threads, images) == expected
