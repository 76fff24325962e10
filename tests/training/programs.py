"""Starts the test programs of this folder: frameworks fix their devices when they start, so each
needs its own process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import shardfeed

ROOT = Path(shardfeed.__file__).parents[1]
_SECONDS = 300  # a program takes about 10; processes that wait for one that died are ended


def run(program: str, *arguments: object) -> Any:
    """What ``program`` printed last, read as JSON."""
    return _result(_start(program, *arguments))


def ended(program: str, *arguments: object) -> int:
    """The exit status of ``program``; minus the number of the signal that ended it."""
    process = _start(program, *arguments)
    process.communicate(timeout=_SECONDS)
    return process.returncode


def run_together(program: str, count: int, *arguments: object) -> list[Any]:
    """What each of ``count`` processes that find each other at ports of this machine, one each,
    printed last. Ports, count and the process's number follow the arguments.
    """
    started = _start_together(program, count, *arguments)
    try:
        return [_result(process) for process in started]
    finally:
        for process in started:
            process.kill()


def ended_together(program: str, count: int, *arguments: object) -> list[int]:
    """The exit statuses of such processes."""
    started = _start_together(program, count, *arguments)
    try:
        for process in started:
            process.communicate(timeout=_SECONDS)
        return [process.returncode for process in started]
    finally:
        for process in started:
            process.kill()


def _start_together(program: str, count: int, *arguments: object) -> list[subprocess.Popen[str]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        ports = ",".join(str(server.getsockname()[1]) for server in servers)
    return [_start(program, *arguments, ports, count, number) for number in range(count)]


def _start(program: str, *arguments: object) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    env.pop("XLA_FLAGS", None)
    command = [sys.executable, str(Path(__file__).with_name(program)), *map(str, arguments)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, out + err
    return json.loads(out.splitlines()[-1])
