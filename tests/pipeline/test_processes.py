"""Which processes lie below a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from shardfeed.processes import descendants


def test_a_child_is_found_while_threads_end() -> None:
    end, started = threading.Event(), list[subprocess.Popen[str]]()

    def wait_and_end(number: int) -> None:
        end.wait(60)
        time.sleep(number / 1000)

    ending = [threading.Thread(target=wait_and_end, args=(number,), daemon=True) for number in range(200)]

    # The kernel notes a child with the thread that started it, or, once that has ended, with
    # another.
    def start() -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True))
        ending[100].join()

    starting = threading.Thread(target=start, daemon=True)
    for thread in (*ending, starting):
        thread.start()
    while starting.is_alive() and not started:
        time.sleep(0.01)
    end.set()
    looks = []
    while ending[-1].is_alive():
        looks.append(started[0].pid in descendants(os.getpid()))
    started[0].communicate("\n", timeout=30)
    assert looks and all(looks)


# Prints its number and starts the next of the names that it is given; the last waits for a line.
CHAIN = """
import ctypes, os, subprocess, sys
code, name, *names = sys.argv[1:]
ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
print(os.getpid(), flush=True)
subprocess.run([sys.executable, "-c", code, code, *names]) if names else input()
"""


def test_descendants_come_the_youngest_first_whatever_they_call_themselves() -> None:
    names = ("x) Z 1 (", "tmux: server", ") S 0 0", "last")
    with subprocess.Popen(
        [sys.executable, "-c", CHAIN, CHAIN, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        pids = [int(first.stdout.readline()) for _ in names]
        below = [pid for pid in descendants(os.getpid()) if pid in pids], descendants(pids[1]), descendants(pids[-1])
        called = [Path(f"/proc/{pid}/comm").read_text() for pid in pids]
        first.communicate("\n", timeout=30)
    assert pids[0] == first.pid
    assert called == [name + "\n" for name in names]
    assert below == (pids[::-1], pids[:1:-1], [])
