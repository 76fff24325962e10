"""One address for many worker pools: ``pools_in_turn.py PORT POOL_ADDRESS…``.

A job has one environment, and that has one address. On a cluster it is ``localhost:8099``, which is
another pool on each machine. Here, on one machine, the first pool starts an engine's first worker,
and the second pool the second.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_fn_api_pb2_grpc as api


class _InTurn(api.BeamFnExternalWorkerPoolServicer):
    def __init__(self, addresses: Sequence[str]) -> None:
        self._pools = itertools.cycle([api.BeamFnExternalWorkerPoolStub(grpc.insecure_channel(a)) for a in addresses])

    def StartWorker(self, request: Any, context: Any) -> Any:
        return next(self._pools).StartWorker(request)


def main(port: str, *addresses: str) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))  # one request at a time, so that turns are kept
    api.add_BeamFnExternalWorkerPoolServicer_to_server(_InTurn(addresses), server)
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
