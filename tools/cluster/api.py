"""What the tools ask of a cluster's API server, from the host and as its administrator."""

import datetime as dt
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.models.core_v1 import NodeCondition
from lightkube.resources.core_v1 import Node, ServiceAccount

from tools.cluster.manifests import initial_objects

_TIMEOUT = httpx2.Timeout(5.0)
_FIELD_MANAGER = "local-cluster"


class AdminClient:
    """The administrator's view of one cluster; a context manager that closes its connections."""

    def __init__(self, kubeconfig: Path, address: str, authority: Path) -> None:
        # The machine's proxy settings are none of a loopback address's business, hence trust_env=False.
        self._client = Client(
            config=KubeConfig.from_file(str(kubeconfig)),
            timeout=_TIMEOUT,
            trust_env=False,
            field_manager=_FIELD_MANAGER,
        )
        trust = ssl.create_default_context(cafile=str(authority))
        self._health = httpx2.Client(base_url=address, verify=trust, timeout=_TIMEOUT, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._health.close()

    def serves(self) -> bool:
        """Whether the API server says of itself that it is ready."""
        try:
            return self._health.get("/readyz").is_success
        except httpx2.HTTPError:
            return False

    def create_initial_objects(self) -> None:
        """Create what every cluster starts with; does no harm where it is there already.

        Raises:
            ApiError: the API server refused.
        """
        for manifest in initial_objects():
            self._client.apply(from_dict(manifest), force=True)

    def node_is_ready(self, node: str, since: dt.datetime) -> bool:
        """Whether kubelet has reported the node as ready after a point in time; an older report tells of a past run."""
        try:
            status = self._client.get(Node, node).status
        except (ApiError, httpx2.HTTPError):
            return False
        conditions = (status.conditions if status else None) or []
        return any(_is_ready_since(condition, since) for condition in conditions)

    def pods_can_be_created(self) -> bool:
        """Whether the default service account exists, without which no Pod is admitted."""
        try:
            self._client.get(ServiceAccount, "default", namespace="default")
        except (ApiError, httpx2.HTTPError):
            return False
        return True


def _is_ready_since(condition: NodeCondition, since: dt.datetime) -> bool:
    heartbeat = condition.lastHeartbeatTime
    is_ready = condition.type == "Ready" and condition.status == "True"
    return is_ready and heartbeat is not None and heartbeat >= since
