"""The way from the host into the cluster: copies bytes between a port of the host and the API server.

A socket belongs to the network namespace in which it was made. So the listening socket is made on the host and handed
to this process as its standard input, while the connections it opens belong to the cluster, where it runs.
"""

import asyncio
import contextlib
import socket

from tools.cluster.layout import API_PORT

_CHUNK_BYTES = 65536


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy until the source ends, then pass that end on, leaving the other direction open (half-close)."""
    while chunk := await source.read(_CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    target.write_eof()


async def serve_client(client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
    """Join one client to the API server until both directions have ended."""
    # A connection that breaks, on either side and at any time, is what clients retry: there is nobody to tell here.
    with contextlib.suppress(OSError), contextlib.closing(client_writer):
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", API_PORT)
        with contextlib.closing(server_writer):
            await asyncio.gather(_copy(client_reader, server_writer), _copy(server_reader, client_writer))


async def main(listener: socket.socket) -> None:
    """Serve until killed."""
    server = await asyncio.start_server(serve_client, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=0)))
