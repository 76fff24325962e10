"""Ports for servers that cannot bind port 0 and report which one they got."""

from __future__ import annotations

import random
import socket

_PORTS = range(
    12_000, 32_000
)  # below those that Linux gives to clients and to port 0, so nobody else takes one by chance


def unused_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    for port in random.sample(_PORTS, 100):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # taken
            continue
    raise RuntimeError(f"100 ports from {_PORTS[0]} to {_PORTS[-1]} are all taken")
