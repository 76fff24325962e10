"""A signal that comes while the main thread waits for a lock, and that another thread receives."""

import signal
import subprocess
import sys

import pytest

from tests.pipeline.photos import environment

# The main thread blocks the signal, so that the other receives it: what chance decides elsewhere. Who is asked to stop says so
# before the wait is over, or that wait was what the handler had to wait for.
PROGRAM = """
import os, signal, sys, threading, time
from pipeline.interrupt import StopSignals
from transforms.run_state import RUN

number, done = int(sys.argv[1]), threading.Event()

def receive():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    while sys._current_frames()[threading.main_thread().ident].f_code is not threading.Condition.wait.__code__:
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(os.getpid(), number)
    print("taken while waiting:", RUN.stop.wait(10))
    done.set()

before = [signal.getsignal(each) for each in (number, signal.SIGURG)]
with StopSignals(in_process=True) as signals:
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    threading.Thread(target=receive).start()
    done.wait()
    print("received:", signals.received)
print("as before:", before == [signal.getsignal(each) for each in (number, signal.SIGURG)], signal.set_wakeup_fd(-1))
print("threads:", [thread.name for thread in threading.enumerate()])
"""


FORKING = """
import os, signal, time
from pipeline.wake_up import wait_ended_by

with wait_ended_by([signal.SIGTERM]):
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
print("still there:", os.waitpid(child, os.WNOHANG) == (0, 0))
os.kill(child, signal.SIGKILL)
"""


def test_a_child_that_was_forked_meanwhile_is_not_waited_for() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, env=environment())
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "still there: True\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_taken_while_the_main_thread_waits(number: signal.Signals) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number))], capture_output=True, text=True, env=environment()
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        0,
        "taken while waiting: True\nreceived: True\nas before: True -1\nthreads: ['MainThread']\n",
        "\nstopping after the images in hand (again to stop at once) ...\n",
    )
