"""Programs for the driver's tests. Worker processes import them by name, so they are module-level functions."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def declare_nothing() -> None:
    """Declare an empty stack."""


def declare_components(count: int) -> None:
    """Declare components, which need no provider."""
    import pulumi  # noqa: PLC0415 -- slow, and only workers need it

    for number in range(count):
        pulumi.ComponentResource("test:index:Part", f"part-{number}", {}, None)


def fail(message: str) -> None:
    """Raise, as a broken program does."""
    raise ValueError(message)


def print_to_stdout(text: str) -> None:
    """Write where a worker's messages would go, were it not prevented."""
    print(text, flush=True)  # noqa: T201 -- this is what is tested
    os.write(1, text.encode())


def hang_after_telling(path: Path) -> None:
    """Say that it runs, then never end."""
    path.touch()
    threading.Event().wait()


def declare_components_when_told(count: int, running: Path, go: Path) -> None:
    """Say that it runs, and declare components once another file is there."""
    running.touch()
    while not go.exists():
        # The file is another process's to make, which sets no event here.
        time.sleep(0.01)
    declare_components(count)


def load_after(gate: Path) -> Callable[[], None]:
    """Return a program once somebody has opened and closed a named pipe."""
    gate.read_bytes()
    return declare_nothing


def kill_own_process() -> None:
    """Take the worker process down."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Cluster:
    """Where a program's objects go."""

    kubeconfig: str
    namespace: str


def declare_config_maps(cluster: Cluster, count: int, value: str = "1") -> None:
    """Declare ConfigMaps as the product declares its objects: fixed field manager, no waiting."""
    import pulumi  # noqa: PLC0415 -- slow, and only workers need it
    import pulumi_kubernetes as kubernetes  # noqa: PLC0415 -- as above

    provider = kubernetes.Provider(
        "kubernetes",
        kubeconfig=cluster.kubeconfig,
        cluster_identifier="test",
        enable_config_map_mutable=True,
    )
    for number in range(count):
        kubernetes.core.v1.ConfigMap(
            f"settings-{number}",
            metadata={
                "name": f"settings-{number}",
                "namespace": cluster.namespace,
                "annotations": {"pulumi.com/skipAwait": "true", "pulumi.com/patchFieldManager": "driver-test"},
            },
            data={"key": value},
            opts=pulumi.ResourceOptions(provider=provider),
        )


def declare_invalid_service(cluster: Cluster) -> None:
    """Declare a Service that the API server refuses."""
    import pulumi  # noqa: PLC0415 -- slow, and only workers need it
    import pulumi_kubernetes as kubernetes  # noqa: PLC0415 -- as above

    provider = kubernetes.Provider("kubernetes", kubeconfig=cluster.kubeconfig, cluster_identifier="test")
    kubernetes.core.v1.Service(
        "broken",
        metadata={
            "name": "broken",
            "namespace": cluster.namespace,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        spec={"ports": [{"port": 80}, {"port": 81}]},
        opts=pulumi.ResourceOptions(provider=provider),
    )
