"""What Beam says during a run is kept, and shown only if nothing else explains the end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam
import pytest
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.worker import sdk_worker

from shardfeed.errors import UsageError
from shardfeed.pipeline.engines import quiet
from shardfeed.pipeline.engines.quiet import MOST, Said, kept
from tests.kit import builds
from tests.kit.hooks import put

BEAM = logging.getLogger("apache_beam.runners.any")


def of_beam(code: str, **names: Any) -> Callable[[], None]:
    """A function of a module of Beam's."""
    names["__name__"] = "apache_beam.any"
    exec(compile(f"def function():\n    {code}", os.path.join(apache_beam.__path__[0], "any.py"), "exec"), names)
    function: Callable[[], None] = names["function"]
    return function


def texts(said: Said) -> list[str]:
    return said.beside(Exception())


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The errors of threads that a host program's own hook is told."""
    ends: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ends.append(str(args.exc_value)))
    return ends


def end_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_the_log_is_kept_from_the_run_s_level_on_and_the_rest_passes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with kept(errors := Said()):
        BEAM.error("a failure of %s", "a step")
        BEAM.warning("a warning")
        logging.getLogger("grpc._channel").error("a channel")
        logging.getLogger("apache_beams").error("a package of the user's")
    with kept(warnings := Said(logging.WARNING)):
        BEAM.warning("a warning")
        BEAM.info("news")
    assert (texts(errors), texts(warnings)) == (["a failure of a step", "a channel"], ["a warning"])
    assert [record.getMessage() for record in caplog.records] == ["a warning", "a package of the user's", "news"]


def test_a_record_s_traceback_is_kept_with_it() -> None:
    with kept(said := Said()):
        try:
            raise ValueError("a bug")
        except ValueError:
            BEAM.exception("it failed")
    (text,) = texts(said)
    assert text.startswith("it failed\nTraceback (most recent call last):\n") and text.endswith("\nValueError: a bug")


def test_what_beam_logs_under_no_name_is_kept_and_what_others_log_there_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with kept(said := Said()):
        of_beam("logging.error('from the engine')", logging=logging)()
        logging.error("the user's")
    assert (texts(said), caplog.messages) == (["from the engine"], ["the user's"])


def test_a_thread_that_beam_started_ends_without_a_word_and_any_other_as_before(ends: list[str]) -> None:
    lose = of_beam("raise ConnectionError('lost')", ConnectionError=ConnectionError)

    def own() -> None:
        lose()

    with kept(said := Said()):
        end_thread(lose)
        end_thread(own)
    end_thread(lose)
    assert (ends, [text.splitlines()[-1] for text in texts(said)]) == (["lost"] * 2, ["ConnectionError: lost"])


def test_what_beam_s_worker_prints_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with kept(said := Said()):
        eval("print('it failed', 7, file=None)", vars(sdk_worker))
    assert (texts(said), *capfd.readouterr()) == (["it failed 7"], "", "")


def state() -> list[object]:
    """What is a program's own, of all that is changed meanwhile."""
    loggers = [logging.getLogger(name) for name in (None, "apache_beam", "grpc", "apache_beam.runners.common")]
    mine = [(each.level, each.propagate, [*each.handlers], [*each.filters], each.disabled) for each in loggers]
    return [*mine, threading.excepthook, "print" in vars(sdk_worker)]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt], ids=["success", "Ctrl-C"])
def test_afterwards_all_is_as_before(error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "THREADS_SECONDS", 0)
    before = state()
    try:
        with kept(Said()):
            assert state() != before
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    assert state() == before


def test_a_hook_that_a_program_puts_before_ours_stays(ends: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with kept(Said()):
        ours = threading.excepthook
        later = lambda args: ours(args)  # noqa: E731
        monkeypatch.setattr(threading, "excepthook", later)
    assert threading.excepthook is later
    end_thread(of_beam("raise KeyError('after')", KeyError=KeyError))
    assert ends == ["'after'"]


def test_two_runs_side_by_side_each_keep_what_is_said_and_the_last_one_puts_all_back() -> None:
    before, first, second = state(), Said(), Said(logging.WARNING)
    began, go_on = threading.Event(), threading.Event()

    def run() -> None:
        with kept(second):
            began.set()
            go_on.wait(30)

    thread = threading.Thread(target=run)
    with kept(first):
        BEAM.error("one")
        thread.start()
        assert began.wait(30)
        BEAM.error("both")
        BEAM.warning("a warning")
    BEAM.error("two")
    go_on.set()
    thread.join()
    assert (texts(first), texts(second)) == (["one", "both"], ["both", "a warning", "two"])
    assert state() == before


def test_of_very_much_the_latest_is_kept() -> None:
    with kept(said := Said()):
        for number in range(MOST + 1):
            BEAM.error(f"failure {number}")
    assert texts(said) == [f"failure {number}" for number in range(1, MOST + 1)]


def test_what_the_error_itself_says_is_not_shown_again(caplog: pytest.LogCaptureFixture) -> None:
    said = Said()
    for text in ("a bug [while running 'A']\nTraceback", "disconnected", "", "a reason"):
        said.add(text)
    said.show(ValueError("job-1 failed: disconnected"))
    said.show(ValueError("a bug [while running 'A']"))
    assert caplog.messages == [
        "Apache Beam said meanwhile:\na bug [while running 'A']\nTraceback\na reason",
        "Apache Beam said meanwhile:\ndisconnected\na reason",
    ]
    Said().show(ValueError())
    assert len(caplog.messages) == 2


def break_engine(error: Exception) -> None:
    """A hook: the engine in this process has a bug; only its log tells the reason."""

    def run(*_: object) -> None:
        logging.getLogger("apache_beam.runners").error("the reason")
        raise error

    put(fn_runner.FnApiRunner, "run_pipeline", run)


def test_a_bug_is_shown_with_what_beam_said_beside_it(photos: Path, tmp_path: Path) -> None:
    hooks = [partial(break_engine, RuntimeError("?"))]
    ended = builds.build(photos, tmp_path / "out", *builds.DIRECT, hooks=hooks)
    assert ended.code == 1
    assert ended.err.startswith("Apache Beam said meanwhile:\nthe reason\nTraceback (most recent call last):\n")
    assert ended.err.endswith("\nRuntimeError: ?\n")


def test_an_error_of_the_user_s_is_shown_alone(photos: Path, tmp_path: Path) -> None:
    hooks = [partial(break_engine, UsageError("give another folder"))]
    ended = builds.build(photos, tmp_path / "out", *builds.DIRECT, hooks=hooks)
    assert (ended.code, ended.err) == (2, "shardfeed: give another folder\n")
