"""What threads of a worker say when they end by an error."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from grpc import _channel

from pipeline.beam_worker import _ThreadsHook

LOST: type[BaseException] = _channel._MultiThreadedRendezvous  # what a stream of Beam's ends by


@pytest.mark.parametrize(
    ("thread", "error", "shown"),
    [
        ("run_worker_job-001[job]_ref_Environment_default_environment_1", LOST, False),
        ("read_state", LOST, False),
        ("read_grpc_client_inputs", grpc.RpcError, False),
        ("run_worker_job-001", ValueError, True),
        ("another", LOST, True),
    ],
    ids=["a worker in the launcher", "its state", "its elements", "a bug", "another thread"],
)
def test_a_thread_that_talks_with_the_engine_does_not_say_that_it_was_lost(
    thread: str, error: type[BaseException], shown: bool
) -> None:
    said: list[Any] = []
    args: Any = SimpleNamespace(exc_type=error, thread=threading.Thread(name=thread))
    _ThreadsHook(said.append)(args)
    assert said == [args] * shown
