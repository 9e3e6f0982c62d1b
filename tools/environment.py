"""The local environment: a cluster with the images it needs and a model registry in it.

The demo, the benchmarks and the cluster tests start here; what they have in common stands on `prepare` and `start`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools import toolchain
from tools.cluster.clusters import Cluster, up
from tools.images import Archive, build_reconciler_image, build_registry_image, build_runtime_image
from tools.kubectl import Kubectl
from tools.toolchain.versions import PROGRAMS

Progress = Callable[[str], None]

RUNTIME_REFERENCES = (
    # What the product renders for the default version; the stand-in answers to the real one's digest.
    "ghcr.io/ollaya-dev/ollaya:0.12.0@sha256:f79e865fda7af45aa66617b85fe16b08688d27f83a3137a21c75d3b137d8cf39",
    # An older release, for rollouts from one to the other.
    "ghcr.io/ollaya-dev/ollaya:0.11.0@sha256:5f96bc111bf6ca2af9691c0a33a6d04c61e16c4918fb002850f212cbc998de60",
)
REGISTRY = "ollaya-registry"
MANIFESTS_PORT, WEIGHTS_PORT, CONTROL_PORT = 8080, 8081, 8082


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images of the local environment, as archives."""

    runtime: Archive
    registry: Archive
    reconciler: Archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A running cluster with its images and registry."""

    cluster: Cluster
    images: Images

    @property
    def kubectl(self) -> Kubectl:
        """Kubectl as the cluster's administrator."""
        return Kubectl(self.cluster.kubeconfig, str(toolchain.kubectl()))


def prepare(progress: Progress) -> Images:
    """Build whatever is not built yet; needs minutes the first time and next to nothing later.

    Raises:
        ToolchainError: A program cannot be built.
        ImageBuildError: An image cannot be built.
    """
    for program in PROGRAMS:
        toolchain.build(program)
    return Images(
        runtime=build_runtime_image(progress),
        registry=build_registry_image(progress),
        reconciler=build_reconciler_image(progress),
    )


def start(name: str, images: Images, progress: Progress) -> Environment:
    """Bring the cluster up with everything in it but the platform; what is there already is kept.

    Raises:
        ClusterError: The cluster does not come up, or an image does not load.
        KubectlError: The registry cannot be applied.
    """
    cluster = up(name, progress)
    load(cluster, images.runtime, RUNTIME_REFERENCES)
    load(cluster, images.registry)
    load(cluster, images.reconciler)
    environment = Environment(cluster=cluster, images=images)
    environment.kubectl.apply(*registry_manifests(images.registry.name))
    environment.kubectl.run("rollout", "status", f"deployment/{REGISTRY}", "-n", REGISTRY, "--timeout=60s", timeout=90)
    return environment


def load(cluster: Cluster, archive: Archive, names: tuple[str, ...] = ()) -> None:
    """Bring an image and everything below it into the cluster, under its own name and `names`."""
    for member in archive.lineage():
        cluster.load(member.path, (member.name, *(names if member is archive else ())))


def registry_manifests(image: str) -> tuple[Mapping[str, Any], ...]:
    """Return the stand-in registry as it runs in the cluster."""
    labels = {"app": REGISTRY}
    ports = {"manifests": MANIFESTS_PORT, "weights": WEIGHTS_PORT, "control": CONTROL_PORT}
    container = {
        "name": "registry",
        "image": image,
        "imagePullPolicy": "Never",
        "args": [
            f"--listen=0.0.0.0:{MANIFESTS_PORT}",
            f"--weights-listen=0.0.0.0:{WEIGHTS_PORT}",
            f"--control-listen=0.0.0.0:{CONTROL_PORT}",
            f"--base-url=http://{REGISTRY}.{REGISTRY}.svc:{MANIFESTS_PORT}",
        ],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "readinessProbe": {"tcpSocket": {"port": "manifests"}, "periodSeconds": 1},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    metadata = {"name": REGISTRY, "namespace": REGISTRY}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": REGISTRY}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"name": name, "port": port} for name, port in ports.items()]},
        },
    )
