"""Helper processes: whatever happens to them, the build ends as it would without them."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pipeline import helpers
from pipeline.config import BuildConfig
from pipeline.engine import Engine
from pipeline.helpers import Helpers
from shardfeed import naming
from shardfeed.storage.local import LocalStore
from tests.promises import builds, disk, hooks
from tests.promises.builder import Request
from tests.promises.photos import make_photos, photo, write
from transforms.images.options import ImageOptions
from transforms.options import BuildOptions
from transforms.run_state import RUN


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 photos of two classes."""
    return make_photos(tmp_path_factory.mktemp("input") / "photos", each=40)


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a build without helpers."""
    out = tmp_path_factory.mktemp("alone") / "out"
    builds.built(photos, out)
    return disk.digests(out)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_what_a_helper_makes_is_not_made_again_by_the_graph(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "images"
    log.touch()
    builds.built(photos, tmp_path / "out", hooks=[partial(hooks.count_images, log), partial(hooks.helpers, 1, made=40)])
    assert log.stat().st_size <= 40
    assert disk.digests(tmp_path / "out") == alone


def note_counters(log: Path) -> None:
    from pipeline import waiting

    note = waiting.note_counted

    def noting(result: object) -> None:
        note(result)
        log.write_text(json.dumps(dict(RUN.counted)))

    hooks.put(waiting, "note_counted", noting)


def test_copies_of_the_step_count_what_a_helper_made_by_itself_as_made(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    """Half of the images, by the helper before the graph began; each copy is given some of these parts."""
    out, log = tmp_path / "out", tmp_path / "counters"
    copies = ("--runner", "FnApiRunner", "--direct_running_mode", "multi_threading", "--direct_num_workers", "2")
    builds.built(photos, out, *copies, hooks=[partial(note_counters, log), partial(hooks.helpers, 1, made=40)])
    counted = json.loads(log.read_text())
    assert (counted.get("parts_kept", 0), counted["images_written"]) == (0, 80)
    assert counted["bytes_in"] == sum(path.stat().st_size for path in photos.glob("*/*"))
    assert disk.digests(out) == alone


@pytest.mark.parametrize("made", [0, 20], ids=["that is given parts", "that makes its own parts"])
def test_a_helper_that_is_killed_changes_nothing(
    made: int, photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    killing = [partial(hooks.at_part_of_helper, 1, kill), partial(hooks.helpers, 1, made=min(made, 4))]
    ended = builds.built(photos, tmp_path / "out", hooks=killing)
    assert ended.err == ""
    assert disk.digests(tmp_path / "out") == alone


def test_helpers_that_cannot_be_started_change_nothing(photos: Path, alone: dict[str, str], tmp_path: Path) -> None:
    ended = builds.built(photos, tmp_path / "out", hooks=[hooks.broken_helpers, partial(hooks.helpers, 1)])
    assert ended.err == ""
    assert disk.digests(tmp_path / "out") == alone


def test_an_interpreter_that_is_not_there_changes_nothing(photos: Path, alone: dict[str, str], tmp_path: Path) -> None:
    gone = partial(hooks.interpreter, str(tmp_path / "gone"))
    ended = builds.built(photos, tmp_path / "out", hooks=[gone, partial(hooks.helpers, 1)])
    assert ended.err == ""
    assert disk.digests(tmp_path / "out") == alone


def test_an_error_in_a_helper_is_reported_as_the_build_meets_it_itself(tmp_path: Path) -> None:
    one, two, out = make_photos(tmp_path / "one"), tmp_path / "two", tmp_path / "out"
    write(two, "cat/001.jpg", photo(1))
    ended = builds.build([one, two], out, hooks=[partial(hooks.helpers, 1)])
    assert ended.code == 2
    assert f"cat/001.jpg is in two inputs: {one} and {two}" in ended.err
    assert not (out / "manifest.json").exists()


def test_a_build_that_is_stopped_leaves_no_helper_and_can_be_carried_on(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    stop = partial(hooks.at_part_of_helper, 1, partial(interrupt_builder, pids))
    ended = builds.build(photos, tmp_path / "out", hooks=[stop, partial(hooks.helpers, 1)])
    assert (ended.code, "Traceback" in ended.err) == (4, False)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)
    builds.built(photos, tmp_path / "out")
    assert disk.digests(tmp_path / "out") == alone


def interrupt_builder(pids: Path, helper: int) -> None:
    pids.write_text(str(helper))
    os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def started(photos: Path, out: Path, builder: int) -> Iterator[subprocess.Popen[bytes]]:
    """A helper that has made its plan, for a builder of this process id."""
    config = BuildConfig((str(photos),), str(out), BuildOptions(image=ImageOptions(height=8, width=8)))
    process = subprocess.Popen(
        [sys.executable, *helpers._flags(), "-c", helpers._PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        order = (builder, config, 0, 1, 1, 1000, False)
        process.stdin.write(b"".join(map(pickle.dumps, (sys.path, order, ("begin",)))))
        process.stdin.flush()
        yield process


def test_a_helper_ends_when_its_builder_is_dead(photos: Path, tmp_path: Path) -> None:
    with started(photos, tmp_path / "out", os.getpid()) as process:
        assert process.stdin is not None and process.stdout is not None
        assert any(b'"plan"' in line for line in process.stdout)
        process.stdin.close()  # as the system does it for a process that is killed
        assert process.wait(60) == 0


def test_a_helper_ends_when_its_builder_is_dead_and_another_process_holds_the_pipe(
    photos: Path, tmp_path: Path
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    with started(photos, tmp_path / "out", dead.pid) as process:
        assert process.wait(60) == 0


def test_a_program_that_forks_during_the_build_does_not_hold_it_up(
    photos: Path, alone: dict[str, str], tmp_path: Path
) -> None:
    ended = builds.build(
        photos,
        tmp_path / "out",
        hooks=[partial(hooks.at_part_of_helper, 0, fork_for_ever), partial(hooks.helpers, 1)],
    )
    assert ended.code == 0, ended.err
    assert disk.digests(tmp_path / "out") == alone


def fork_for_ever(_helper: int) -> None:
    if os.fork() == 0:
        signal.pause()


def test_a_helper_that_does_not_answer_is_given_up(photos: Path, alone: dict[str, str], tmp_path: Path) -> None:
    ended = builds.build(
        photos,
        tmp_path / "out",
        hooks=[hooks.impatient, partial(hooks.at_part_of_helper, 0, stop), partial(hooks.helpers, 1)],
    )
    assert (ended.code, ended.err) == (0, "")
    assert disk.digests(tmp_path / "out") == alone


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def test_what_other_code_prints_in_a_helper_is_nothing(photos: Path, alone: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "images"
    log.touch()
    noise = [hooks.noisy_helpers, partial(hooks.count_images, log), partial(hooks.helpers, 1, made=40)]
    assert builds.build(photos, tmp_path / "out", hooks=noise).code == 0
    assert log.stat().st_size <= 40
    assert disk.digests(tmp_path / "out") == alone


def test_code_in_the_current_folder_is_not_run_and_the_input_is_not_written_to(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    for name in ("pickle.py", "struct.py"):
        (photos / name).write_text("open('RUN', 'w')")
    script = tmp_path / "bin" / "shardfeed"  # as pip makes it
    script.parent.mkdir()
    script.write_text("import sys; from pipeline.cli import main; sys.exit(main())")
    before = sorted(photos.rglob("*"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(
        [sys.executable, script, "build", "--input", ".", "--output", tmp_path / "out", "--image_size", "8"],
        cwd=photos,
        env={**environment, "PYTHONPATH": str(builds.ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(photos.rglob("*")) == before


@pytest.mark.parametrize(
    ("threads", "cores", "runner", "expected"),
    [
        pytest.param(None, 2, None, (1, 1), id="two cores"),
        pytest.param(1, 8, None, (0, 0), id="one thread asked for"),
        pytest.param(8, 2, None, (1, 4), id="more threads than cores"),
        pytest.param(8, 8, None, (7, 7), id="a thread a process"),
        pytest.param(64, 64, None, (15, 60), id="never more than 15"),
        pytest.param(8, 8, "PortableRunner", (0, 0), id="an engine"),
        pytest.param(8, 8, "PrismRunner", (7, 7), id="an engine whose worker is a thread of this process"),
        pytest.param(8, 8, "bucket", (7, 7), id="an output in a bucket"),
    ],
)
def test_there_is_one_helper_a_further_core(
    threads: int | None,
    cores: int,
    runner: str | None,
    expected: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(helpers, "cores", lambda: cores)
    monkeypatch.setattr(helpers, "default_threads", lambda _: cores)
    monkeypatch.setattr(helpers, "_Helper", lambda order: FakeHelper())
    output, runner = ("gs://bucket/out", None) if runner == "bucket" else (str(tmp_path.parent / "out"), runner)
    engine = Engine(runner, ("--job_endpoint=host:1",) if runner else ())
    config = BuildConfig((str(tmp_path),), output, threads=threads, engine=engine)
    with Helpers(config) as some:
        assert (some.count, some.threads) == expected


def test_ctrl_c_while_helpers_start_leaves_none_of_them(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[FakeHelper] = []

    def start(order: object) -> FakeHelper:
        if started:
            raise KeyboardInterrupt
        started.append(FakeHelper())
        return started[0]

    monkeypatch.setattr(helpers, "cores", lambda: 4)
    monkeypatch.setattr(helpers, "_Helper", start)
    with pytest.raises(KeyboardInterrupt), Helpers(BuildConfig((str(photos),), str(photos.parent / "o"), threads=4)):
        pytest.fail("the block was entered")
    assert [helper.closed for helper in started] == [True]


def test_a_worker_takes_over_without_waiting_until_its_helpers_are_up(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NotUp(FakeHelper):
        def tell(self, what: str) -> None:
            pytest.fail(f"it was told to {what}")

    monkeypatch.setattr(helpers, "cores", lambda: 2)
    monkeypatch.setattr(helpers, "_Helper", lambda order: NotUp())
    config = BuildConfig((str(photos),), str(photos.parent / "o"), threads=2)
    with Helpers(config, in_worker=True) as some:
        assert some.count == 1
        some.take_over()


OLD, NEW, OTHER = "a" * 32, "b" * 32, "c" * 32


@pytest.mark.parametrize(
    ("held", "left"),
    [
        pytest.param(OLD, None, id="ours is taken back"),
        pytest.param(OTHER, OTHER, id="another build's is left"),
        pytest.param("discarding", "discarding", id="a discard's is left"),
        pytest.param(NEW, NEW, id="one for the new listing is left"),
        pytest.param(None, None, id="none"),
    ],
)
def test_of_a_listing_that_has_changed_only_the_own_claim_is_taken_back(
    held: str | None, left: str | None, monkeypatch: pytest.MonkeyPatch, photos: Path, tmp_path: Path
) -> None:
    early, late = FakeHelper(), FakeHelper()
    early.fingerprint, early.claimed = OLD, True
    late.fingerprint, late.claimed = NEW, held == NEW
    monkeypatch.setattr(helpers, "cores", lambda: 3)
    monkeypatch.setattr(helpers, "_Helper", lambda order: late if order[1] else early)
    store = LocalStore(str(tmp_path / "out"))
    if held is not None:
        store.create(naming.CLAIM, json.dumps({"fingerprint": held, "config": {}}).encode())
    with Helpers(BuildConfig((str(photos),), store.url, threads=3)) as some:
        some.settle(NEW)
    assert early.closed and late.closed
    assert (json.loads(store.read(naming.CLAIM))["fingerprint"] if store.stat(naming.CLAIM) else None) == left


def test_a_build_whose_input_changed_while_another_took_its_output_says_whose_it_is(
    photos: Path, tmp_path: Path
) -> None:
    mine, out, answer = tmp_path / "mine", tmp_path / "out", tmp_path / "answer"
    shutil.copytree(photos, mine)
    args = builds.build_args(photos, out, "--quality", "50", "--discard_incomplete")
    other = partial(hooks.run_other, Request(args, (hooks.kill_at_publishing,)), answer)
    changed = partial(hooks.before_graph, partial(remove_and, mine / "cat" / "003.jpg", other))
    ended = builds.build(mine, out, hooks=[changed, partial(hooks.helpers, 1, made=6)])
    assert (ended.code, answer.read_text()) == (5, "-9\n")
    assert "--quality (there 50, here 95)" in ended.err
    builds.built(photos, out, "--quality", "50")  # its claim is there, and its parts are carried on


def test_a_claim_that_was_made_but_not_heard_of_is_taken_back_too(photos: Path, tmp_path: Path) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out"
    shutil.copytree(photos, mine)
    changed = partial(hooks.before_graph, partial(remove_when, mine / "cat" / "003.jpg", out / naming.CLAIM))
    unheard = partial(hooks.at_part_of_helper, 0, late, event="claimed")
    builds.built(mine, out, hooks=[changed, unheard, partial(hooks.helpers, 1)])
    assert len(disk.keys(out)) == 79


def remove_when(path: Path, claim: Path) -> None:
    while not claim.exists():
        time.sleep(0.01)
    path.unlink()


def late(_helper: int) -> None:
    time.sleep(3)


def remove_and(path: Path, act: Callable[[], None]) -> None:
    path.unlink()
    act()


class FakeHelper:
    """Counts as a process."""

    fingerprint, claimed = "", False
    closed = False

    def settle(self, fingerprint: str) -> None:
        pass

    def close(self) -> None:
        self.closed = True
