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


@dataclass(slots=True)
class Bucket:
    """The bucket of one cluster; Pods find it at `NODE_ADDRESS` and `PORT`.

    Attributes:
        cluster: Where it is; has to be up.
        log: What the server says.
        endpoint: Host and port at which this host finds it; of the last start.
    """

    cluster: Cluster
    log: Path
    endpoint: str = ""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve it, empty.

        Raises:
            NotRunningError: the cluster is not up.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener, self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.cluster.inside(sys.executable, "-m", "tools.bucket"),
                stdin=listener.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=project_environment(),
                start_new_session=True,
            )
            self.endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
            # The socket listens already, so this waits for the server.
            _create(f"http://{self.endpoint}/{NAME}")

    def stop(self) -> None:
        """End the server, and with it everything in the bucket."""
        if self._process is not None:
            # With the one that enters the namespaces goes the one that serves.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


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
