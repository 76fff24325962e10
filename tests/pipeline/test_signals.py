"""What a signal does in each phase of the command line, and what it does in a host program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.kit.commands import environment


def ran(program: str, *args: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a Python program."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


# The main thread blocks the signal, so that another thread receives it: what chance decides
# elsewhere.
WAITING = """
import os, signal, sys, threading, time
from shardfeed import signals

stop, done = threading.Event(), threading.Event()

def receive():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while sys._current_frames()[threading.main_thread().ident].f_code is not threading.Condition.wait.__code__:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    print("taken while waiting:", stop.wait(10))
    done.set()

signals.install("build")
with signals.on_stop(signals.after_images_in_hand(stop.set)):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=receive).start()
    done.wait()
    print("not interrupted")
"""


def test_the_first_signal_is_taken_while_the_main_thread_waits_and_does_not_interrupt_it() -> None:
    assert ran(WAITING) == (
        0,
        "taken while waiting: True\nnot interrupted\n",
        "\nstopping after the images in hand (again to stop at once) ...\n",
    )


ASKING = """
import os, signal, sys, threading
from shardfeed import signals
signals.install("build")
asked = threading.Event()
def ask():
    asked.set()
    threading.Event().wait()
with signals.on_stop(ask, {again}):
    signal.raise_signal({number})
    asked.wait()
    signal.raise_signal({number})
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("number", "again", "said"),
    [
        (signal.SIGINT, "", "stopped; rerun the same command to carry on."),
        (signal.SIGTERM, "again='the job goes on.'", "the job goes on."),
    ],
    ids=["by default", "a text of its own"],
)
def test_a_second_signal_leaves_while_the_first_one_s_action_still_waits(
    number: signal.Signals, again: str, said: str
) -> None:
    assert ran(ASKING.format(number=int(number), again=again)) == (4, "", f"\nshardfeed: {said}\n")


# The main thread meets an error of what the action does and comes to the end of the block, where it
# joins the action's thread, before the action has said why.
CANCELLING = """
import signal, sys, threading, time
from shardfeed import signals
signals.install("build")
cancelled = threading.Event()
def main_thread_joins():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code is not threading.Thread.join.__code__:
        frame = frame.f_back
    return frame is not None
def cancel():
    cancelled.set()
    while not main_thread_joins():
        time.sleep(0.01)
    {then}
with signals.on_stop(cancel):
    signal.raise_signal(signal.SIGINT)
    cancelled.wait()
    {meets}
print("went on")
"""


@pytest.mark.parametrize(
    ("then", "meets", "ended"),
    [
        ("signals.leave('cancelled.')", "raise RuntimeError", (4, "", "\nshardfeed: cancelled.\n")),
        ("pass", "pass", (0, "went on\n", "")),
    ],
    ids=["leaves", "returns"],
)
def test_the_action_says_how_the_command_ends_or_lets_the_main_thread_go_on(
    then: str, meets: str, ended: tuple[int, str, str]
) -> None:
    assert ran(CANCELLING.format(then=then, meets=meets)) == ended


PHASES = """
import signal, threading
from shardfeed import signals
signals.install("build")
heard = threading.Event()
def outer():
    print("outer", flush=True)
    heard.set()
with signals.on_stop(outer):
    with signals.on_stop(lambda: print("inner", flush=True)):
        pass
    signal.raise_signal(signal.SIGINT)
    heard.wait()
{then}
"""


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        ("", (0, "outer\n", "")),
        (
            "signal.raise_signal(signal.SIGTERM); threading.Event().wait()",
            (4, "outer\n", "shardfeed: stopped before build was complete; rerun the same command.\n"),
        ),
    ],
    ids=["the first signal", "a second one after all phases"],
)
def test_after_a_phase_the_one_around_it_is_there_again_and_a_second_signal_leaves(
    then: str, ended: tuple[int, str, str]
) -> None:
    assert ran(PHASES.format(then=then)) == ended


IN_A_HOST = """
import signal, threading
from shardfeed import signals
from shardfeed.errors import IncompleteError
try:
    with signals.on_stop(lambda: print("called")):
        signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
try:
    signals.leave("the engine was lost.")
except IncompleteError as error:
    print(error)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.set_wakeup_fd(-1), threading.active_count())
"""


def test_a_program_that_calls_the_library_keeps_its_handlers_and_its_process() -> None:
    assert ran(IN_A_HOST) == (0, "KeyboardInterrupt\nthe engine was lost.\nTrue -1 1\n", "")


# A program that waits, and starts another that does.
TREE = "import signal, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); signal.pause()"
LEAVING = """
import os, subprocess, sys, time
from pathlib import Path
from shardfeed import processes
from shardfeed import signals
tree, last = sys.argv[1:]
def start(*names):
    for name in names:
        subprocess.Popen([sys.executable, "-c", tree, name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def below(count):
    while len(found := processes.descendants(os.getpid())) < count:
        time.sleep(0.01)
    return found
start("left by a shell")
earlier = below(2)
signals.install("build")
start("gs://sunbeam-photos/", "a job server")
later = [pid for pid in below(6) if pid not in earlier]
Path(last).write_text(f"{earlier}\\n{later}")
signals.leave("the end.")
"""


def left_of(pids: Iterable[int]) -> list[int]:
    """Those that still run after all; a process that was killed may take a moment to be gone."""
    for _ in range(500):
        if not (left := [pid for pid in pids if is_running(pid)]):
            break
        time.sleep(0.01)
    return left


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_leaving_ends_what_the_command_has_started_whatever_it_is_called_and_nothing_that_was_there_before(
    tmp_path: Path,
) -> None:
    assert ran(LEAVING, TREE, tmp_path / "pids") == (4, "", "\nshardfeed: the end.\n")
    earlier, later = (
        list(map(int, line.strip("[]").split(", "))) for line in (tmp_path / "pids").read_text().split("\n")
    )
    try:
        assert (len(earlier), len(later)) == (2, 4)
        assert left_of(later) == []
    finally:
        ended = [pid for pid in earlier if not is_running(pid)]
        for pid in {*earlier, *later} - set(ended):
            os.kill(pid, signal.SIGKILL)
    assert ended == []


FORKING = """
import os, signal, sys
from shardfeed import signals
from shardfeed.errors import IncompleteError
signals.install("benchmark")
child = os.fork()
if child == 0:
    {does}
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_to_a_forked_child_is_its_own(number: signal.Signals) -> None:
    program = FORKING.format(does=f"signal.raise_signal({int(number)})")
    assert ran(program) == (0, f"{-number}\n", "")


def test_a_forked_child_does_not_leave_for_its_parent() -> None:
    does = "\n    ".join(("try:", "    signals.leave('child')", "except IncompleteError:", "    os._exit(7)"))
    assert ran(FORKING.format(does=does)) == (0, "7\n", "")
