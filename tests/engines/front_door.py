"""An engine's front door without an engine: it takes a job, which then runs until it is cancelled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc

SECONDS = 60.0


class FrontDoor(beam_job_api_pb2_grpc.JobServiceServicer):
    """``asked``: whether for a job, which is taken when ``answer`` is set; ``cancelled``: whether the job is."""

    def __init__(self) -> None:
        self.address = ""
        self.asked, self.answer, self.cancelled = (threading.Event() for _ in range(3))
        self.answer.set()

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--runner", "PortableRunner", "--job_endpoint", self.address)

    def DescribePipelineOptions(self, request: Any, context: Any) -> Any:
        return api.DescribePipelineOptionsResponse()

    def Prepare(self, request: Any, context: Any) -> Any:
        return api.PrepareJobResponse(preparation_id="job")

    def Run(self, request: Any, context: Any) -> Any:
        self.asked.set()
        self.answer.wait(SECONDS)
        return api.RunJobResponse(job_id="job")

    def GetState(self, request: Any, context: Any) -> Any:
        return api.JobStateEvent(state=api.JobState.CANCELLED if self.cancelled.is_set() else api.JobState.RUNNING)

    def GetStateStream(self, request: Any, context: Any) -> Iterator[Any]:
        yield self.GetState(request, context)
        self.cancelled.wait(SECONDS)
        yield self.GetState(request, context)

    def GetMessageStream(self, request: Any, context: Any) -> Iterator[Any]:
        yield from ()

    def Cancel(self, request: Any, context: Any) -> Any:
        self.cancelled.set()
        return api.CancelJobResponse(state=api.JobState.CANCELLED)


@contextlib.contextmanager
def front_door() -> Iterator[FrontDoor]:
    """A front door that is open in the block."""
    door = FrontDoor()
    server = grpc.server(ThreadPoolExecutor(10))
    register: Any = beam_job_api_pb2_grpc.add_JobServiceServicer_to_server
    register(door, server)
    door.address = f"localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    try:
        yield door
    finally:
        door.answer.set()
        door.cancelled.set()
        server.stop(None).wait()
