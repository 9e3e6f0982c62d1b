"""An S3 server with one empty bucket inside a local cluster, for tests: moto's, reachable from Pods and from the host.

A socket belongs to the network namespace in which it was made. So the host's is made here and handed to the server as
its standard input, while the one for Pods is made by the server itself, which runs inside the cluster.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from tools.cluster.clusters import Cluster
from tools.cluster.layout import NODE_ADDRESS
from tools.cluster.namespaces import project_environment

PORT = 9000
NAME = "states"
REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "states-writer", "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody"}
"""Any will do: the server checks none."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The bucket as the host sees it; Pods find it at `NODE_ADDRESS` and `PORT`.

    Attributes:
        endpoint: Host and port.
    """

    endpoint: str

    @property
    def backend_url(self) -> str:
        """The bucket as a state backend, from the host."""
        return f"s3://{NAME}?endpoint={self.endpoint}&disableSSL=true&s3ForcePathStyle=true&region={REGION}"


@contextmanager
def bucket_in(cluster: Cluster, log: Path) -> Iterator[Bucket]:
    """Serve an empty bucket until the context ends; what the server says goes to `log`.

    Raises:
        NotRunningError: the cluster is not up.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            cluster.inside(sys.executable, "-m", "tools.bucket"),
            stdin=listener.fileno(),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=project_environment(),
            start_new_session=True,
        )
        try:
            bucket = Bucket(f"127.0.0.1:{listener.getsockname()[1]}")
            # The socket listens already, so this waits for the server.
            _create(f"http://{bucket.endpoint}/{NAME}")
            yield bucket
        finally:
            # With the one that enters the namespaces goes the one that serves.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _create(url: str) -> None:
    request = urllib.request.Request(url, method="PUT")  # noqa: S310 - our own server
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - as above


def main() -> None:
    """Serve both sockets until killed."""
    application = DomainDispatcherApplication(create_backend_app)

    def server(address: str, port: int, descriptor: int | None = None) -> BaseWSGIServer:
        return make_server(address, port, application, threaded=True, request_handler=MotoRequestHandler, fd=descriptor)

    threading.Thread(target=server(NODE_ADDRESS, PORT).serve_forever, daemon=True).start()
    server("127.0.0.1", 0, descriptor=0).serve_forever()


if __name__ == "__main__":
    main()
