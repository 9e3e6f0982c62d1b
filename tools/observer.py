"""What the demo and the cluster tests see of DecisionModels: through the API server, and as a client in the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.kubectl import Kubectl, KubectlError, wait_until

Object = dict[str, Any]


def condition(obj: Object, type_: str) -> Mapping[str, Any]:
    """Return a condition of an object, empty when it has none of that type."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), {})


def wait_until_served(kubectl: Kubectl, definition: str) -> None:
    """Wait until a CustomResourceDefinition is served; `kubectl wait` fails where there is no condition at all yet.

    Raises:
        WaitError: It is not within half a minute.
    """

    def is_established() -> bool:
        return condition(kubectl.get("crd", definition) or {}, "Established").get("status") == "True"

    wait_until(f"{definition} to be served", is_established, 30)


def phase(model: Object) -> str:
    """Return the phase of a DecisionModel, empty before its first pass."""
    return str(model.get("status", {}).get("phase", ""))


def is_observed(model: Object) -> bool:
    """Whether the status speaks about the spec as it stands."""
    return bool(model.get("status", {}).get("observedGeneration") == model["metadata"]["generation"])


def wait_for_model(kubectl: Kubectl, name: str, what: str, holds: Callable[[Object], bool], timeout: float) -> Object:
    """Wait until the status of a DecisionModel in `default` speaks about its spec and `holds`; return the object.

    Raises:
        WaitError: It did not in time; the message shows the last status.
    """
    seen: dict[str, Any] = {}

    def look() -> Object | None:
        nonlocal seen
        seen = kubectl.get("decisionmodel", name) or {}
        return seen if seen and is_observed(seen) and holds(seen) else None

    try:
        return wait_until(f"{name} to be {what}", look, timeout)
    except Exception as error:
        error.add_note(json.dumps(seen.get("status", {}), indent=1))
        raise


@dataclass(frozen=True, slots=True)
class Asking:
    """A Pod inside the cluster that asks a model's Service every 50 ms, each time on a connection of its own."""

    kubectl: Kubectl
    image: str
    model: str
    namespace: str = "default"
    keys: tuple[str, ...] = ()
    """API keys; each of them is used until it is refused."""

    @property
    def pod(self) -> str:
        """The Pod's name."""
        return f"asking-{self.model}"

    def start(self) -> None:
        """Start asking; returns once the first answers are in."""
        self.stop()
        url = f"http://{self.model}.{self.namespace}.svc:11435/v1/systemone"
        variables = {f"KEY_{number}": key for number, key in enumerate(self.keys, 1)}
        container = {
            "name": "client",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": ["python3", "-m", "tools.standin.client", url, *(f"--key-from={each}" for each in variables)],
            "envFrom": [{"secretRef": {"name": self.pod, "optional": True}}],
        }
        metadata = {"name": self.pod, "namespace": self.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": variables}
        self.kubectl.apply(
            *((secret,) if variables else ()),
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5},
            },
        )
        wait_until("the client's first answers", lambda: self.tally().get("asked", 0) > 0, 60)

    def tally(self) -> dict[str, Any]:
        """Return what the client has counted so far."""
        try:
            last = self.kubectl.log(self.pod, self.namespace, 1).strip()
        except KubectlError:
            return {}
        return dict(json.loads(last)) if last.startswith("{") else {}

    def stop(self) -> None:
        """Stop asking."""
        self.kubectl.delete("pod", self.pod, self.namespace, "--wait=true")
