"""Ports for programs that are told where to listen."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel gives ports to whoever asks for any: no other test gets one of these meanwhile.
_PORTS = range(10_000, 20_000)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
