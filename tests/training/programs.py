"""Runs the test programs of this folder: frameworks fix their devices when they start, so each
needs its own process.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.kit.builder import Ended
from tests.kit.builds import run_program

HERE = Path(__file__).parent


def run(program: str, *arguments: object, backend: str = "tensorflow") -> Any:
    """What ``program`` printed last, read as JSON."""
    return _result(_ended(program, *arguments, backend=backend))


def ended(program: str, *arguments: object, backend: str) -> int:
    """The exit status of ``program``; minus the number of the signal that ended it."""
    return _ended(program, *arguments, backend=backend).code


def run_together(program: str, count: int, *arguments: object, backend: str) -> list[Any]:
    """What each of ``count`` processes that find each other at ports of this machine, one each,
    printed last. Ports, count and the process's number follow the arguments.
    """
    return [_result(each) for each in _ended_together(program, count, *arguments, backend=backend)]


def ended_together(program: str, count: int, *arguments: object, backend: str) -> list[int]:
    """The exit statuses of such processes."""
    return [each.code for each in _ended_together(program, count, *arguments, backend=backend)]


def _ended_together(program: str, count: int, *arguments: object, backend: str) -> list[Ended]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        ports = ",".join(str(server.getsockname()[1]) for server in servers)
    with ThreadPoolExecutor(count) as pool:
        started = [pool.submit(_ended, program, *arguments, ports, count, i, backend=backend) for i in range(count)]
        return [each.result() for each in started]


def _ended(program: str, *arguments: object, backend: str) -> Ended:
    flags = "--xla_backend_optimization_level=0" if backend == "jax" else ""  # halves the time to compile
    return run_program(HERE / program, *arguments, backend=backend, XLA_FLAGS=flags)


def _result(process: Ended) -> Any:
    assert process.code == 0, process.out + process.err
    return json.loads(process.out.splitlines()[-1])
