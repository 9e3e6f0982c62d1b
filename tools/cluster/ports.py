"""The port on which the host reaches a cluster's API server: free when first chosen, the same ever after.

Clients, the Pulumi provider above all, take a changed server address for another cluster.
"""

import socket
import zlib

from tools.cluster.errors import PrerequisiteError
from tools.cluster.layout import Layout

_LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes the local ports of outgoing connections.
_FIRST, _COUNT = 20000, 10000
_TRIES = 100


def candidate_ports(seed: str) -> tuple[int, ...]:
    """The ports to try for a cluster, always the same ones in the same order."""
    start = zlib.crc32(seed.encode())
    return tuple(_FIRST + (start + step) % _COUNT for step in range(_TRIES))


def listen(layout: Layout) -> socket.socket:
    """A listening socket on the cluster's port, which is chosen now if it was not before.

    Raises:
        PrerequisiteError: somebody else has the port.
    """
    chosen = read_port(layout)
    for port in candidate_ports(str(layout.directory)) if chosen is None else (chosen,):
        try:
            listener = socket.create_server((_LOOPBACK, port), backlog=512)
        except OSError:
            continue
        layout.port_file.write_text(f"{port}\n")
        return listener
    raise PrerequisiteError(
        f"no port for the API server: {_LOOPBACK}:{chosen or 'any'} is taken. End what listens there, or remove "
        f"{layout.port_file} to choose another one"
    )


def read_port(layout: Layout) -> int | None:
    """The port that was chosen, unless none was yet.

    Raises:
        PrerequisiteError: the file holds something else.
    """
    if not layout.port_file.exists():
        return None
    text = layout.port_file.read_text().strip()
    if not text.isdecimal():
        raise PrerequisiteError(f"{layout.port_file} holds no port number: remove it to choose a new one")
    return int(text)


def api_address(port: int) -> str:
    """The API server's base URL as the host sees it."""
    return f"https://{_LOOPBACK}:{port}"
