"""What cluster tests do and see, all of it through the API server and the stand-ins' own switches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from api.keys import GATE
from tools.environment import CONTROL_PORT, REGISTRY, Environment
from tools.kubectl import Kubectl, wait_until
from tools.observer import Asking, Object, condition, is_observed, phase

SYSTEM = "decision-model-operator-system"
OPERATOR = "decision-model-operator-controller-manager"
RUNTIME_PORT, RUNTIME_CONTROL_PORT = 11435, 11436
SMALL = {"requests": {"cpu": "20m", "memory": "32Mi"}}
SERVICE_LABEL = "kubernetes.io/service-name"
OWNED_KINDS = "deployments,jobs,persistentvolumeclaims,services,poddisruptionbudgets,configmaps,pods,replicasets"

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Bench:
    """One namespace of the test cluster."""

    environment: Environment
    namespace: str

    @property
    def kubectl(self) -> Kubectl:
        """Run kubectl as administrator."""
        return self.environment.kubectl

    def declare(self, name: str, model: str = "laya:en", **spec: Any) -> Object:
        """Apply a DecisionModel with small requests, so that several fit on the node."""
        manifest = decision_model(name, self.namespace, model, **spec)
        self.kubectl.apply(manifest)
        return manifest

    def edit(self, name: str, **spec: Any) -> None:
        """Merge fields into a DecisionModel's spec."""
        patch = json.dumps({"spec": spec})
        self.kubectl.run("patch", "dm", name, "-n", self.namespace, "--type=merge", "-p", patch)

    def annotate(self, name: str, key: str, value: str) -> None:
        """Set an annotation of a DecisionModel."""
        self.kubectl.run("annotate", "dm", name, f"{key}={value}", "-n", self.namespace, "--overwrite")

    def model(self, name: str) -> Object:
        """Return a DecisionModel, empty when there is none."""
        return self.kubectl.get("decisionmodel", name, self.namespace) or {}

    def wait(self, name: str, what: str, holds: Callable[[Object], bool], timeout: float = 90) -> Object:
        """Wait until a DecisionModel's status speaks about its spec and `holds`."""
        last: Object = {}

        def look() -> Object | None:
            nonlocal last
            last = self.model(name)
            return last if last and is_observed(last) and holds(last) else None

        try:
            return wait_until(f"{name} to be {what}", look, timeout)
        except Exception as error:
            error.add_note(json.dumps(last.get("status", {}), indent=1))
            error.add_note(self.operator_log(60))
            raise

    def wait_ready(self, name: str, timeout: float = 90) -> Object:
        """Wait until a DecisionModel is Ready on what its spec asks for."""
        return self.wait(name, "Ready", lambda dm: phase(dm) == "Ready" and is_serving_its_spec(dm), timeout)

    def wait_rejected(self, name: str, timeout: float = 90) -> Object:
        """Wait until a candidate was rejected."""
        return self.wait(name, "RolledBack", lambda dm: phase(dm) == "RolledBack", timeout)

    def selected(self, name: str) -> str:
        """Return the revision the Service selects, empty without a Service."""
        service = self.kubectl.get("service", name, self.namespace) or {}
        return str(service.get("spec", {}).get("selector", {}).get("decisionmodel.io/revision", ""))

    def wait_selected(self, name: str, revision: str) -> None:
        """Wait until the Service selects a revision."""
        wait_until(f"traffic of {name} to be on {revision}", lambda: self.selected(name) == revision, 30)

    def serving_pods(self, name: str, revision: str) -> list[Object]:
        """Return the Pods of a revision's Deployment."""
        selector = f"decisionmodel.io/name={name},decisionmodel.io/revision={revision}"
        return self.kubectl.list("pods", self.namespace, selector)

    def endpoints(self, name: str) -> set[str]:
        """Return the names of the Pods that a Service sends requests to."""
        slices = self.kubectl.list("endpointslices", self.namespace, f"{SERVICE_LABEL}={name}")
        listed = (each for item in slices for each in item.get("endpoints") or ())
        return {each["targetRef"]["name"] for each in listed if each["conditions"].get("ready")}

    def children(self, name: str) -> dict[str, list[str]]:
        """Return the names of all objects that carry the DecisionModel's name label, by kind."""
        found: dict[str, list[str]] = {}
        for item in self.kubectl.list(OWNED_KINDS, self.namespace, f"decisionmodel.io/name={name}"):
            found.setdefault(item["kind"], []).append(item["metadata"]["name"])
        return found

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and note of a DecisionModel's Events, counting repetitions once each."""
        return [
            (item["reason"], item.get("note", ""))
            for item in self.kubectl.list("events.events.k8s.io", self.namespace)
            for _ in range(item.get("series", {}).get("count", 1))
            if item["regarding"]["kind"] == "DecisionModel" and item["regarding"]["name"] == name
        ]

    def told(self, name: str, event: str) -> int:
        """Return how often an Event of that reason was told about a DecisionModel."""
        return [reason for reason, _ in self.events(name)].count(event)

    def operator_log(self, lines: int) -> str:
        """Return the end of the reconciler's log."""
        return self.kubectl.run("logs", f"deploy/{OPERATOR}", "-n", SYSTEM, f"--tail={lines}")

    def metric(self, name: str) -> float:
        """Return the sum of a metric of the reconciler over all labels."""
        lines = self.proxied(SYSTEM, f"deploy/{OPERATOR}", 8080, "/metrics").splitlines()
        matching = (re.fullmatch(rf"{name}(?:\{{[^}}]*\}})? ([0-9.eE+-]+)", line) for line in lines)
        return sum(float(match[1]) for match in matching if match)

    def registry_requests(self) -> list[dict[str, Any]]:
        """Return what the stand-in registry was asked."""
        return list(json.loads(self.proxied(REGISTRY, f"deploy/{REGISTRY}", CONTROL_PORT, "/requests")))

    def registry(self, method: str, path: str, body: Any = None) -> str:
        """Call the registry's control API."""
        return self.proxied(REGISTRY, f"deploy/{REGISTRY}", CONTROL_PORT, path, method, body)

    def runtime(self, pod: str, switches: dict[str, Any]) -> None:
        """Turn failure switches of the runtime in a serving Pod."""
        self.proxied(self.namespace, f"pod/{pod}", RUNTIME_CONTROL_PORT, "/switches", "PATCH", switches)

    def runtime_requests(self, pod: str) -> dict[str, int]:
        """Return how often the runtime in a serving Pod answered what, as `GET /api/ps 200`."""
        return dict(json.loads(self.proxied(self.namespace, f"pod/{pod}", RUNTIME_CONTROL_PORT, "/requests")))

    def unload(self, pod: str, model: str) -> None:
        """Let the runtime in a serving Pod drop its model from memory, as memory pressure would."""
        self.load(pod, model, 0)

    def load(self, pod: str, model: str, keep_alive: int | str, key: str = "") -> None:
        """Let the runtime in a serving Pod load a model for that long, -1 for ever, as every client may."""
        body = {"model": model, "keep_alive": keep_alive}
        self.proxied(self.namespace, f"pod/{pod}", RUNTIME_PORT, "/api/decide", "POST", body, key)

    def proxied(
        self, namespace: str, workload: str, port: int, path: str, method: str = "GET", body: Any = None, key: str = ""
    ) -> str:
        """Send one HTTP request to a Pod from inside it, with the Python that every image here has."""
        program = (
            "import sys,urllib.request as u;"
            "j={'Content-Type':'application/json'};"
            "k=sys.argv[4];j.update({'Authorization':'Bearer '+k} if k else {});"
            "r=u.Request(sys.argv[1],sys.argv[3].encode() or None,j,method=sys.argv[2]);"
            "sys.stdout.write(u.urlopen(r,timeout=10).read().decode())"
        )
        data = "" if body is None else json.dumps(body)
        request = (f"http://127.0.0.1:{port}{path}", method, data, key)
        return self.kubectl.run("exec", workload, "-n", namespace, "--", "python3", "-c", program, *request)


@contextmanager
def fresh_namespace(environment: Environment) -> Iterator[Bench]:
    """Look around in a namespace that did not exist before; it is deleted at the end, without waiting for that."""
    namespace = f"t{next(_numbers)}"
    environment.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        yield Bench(environment, namespace)
    finally:
        environment.kubectl.delete("namespace", namespace, "default", "--wait=false")


@contextmanager
def without_reconciler(kubectl: Kubectl) -> Iterator[None]:
    """Stop the reconciler for a while; it runs again at the end, whatever happens meanwhile."""
    deployment = (f"deployment/{OPERATOR}", "-n", SYSTEM)
    kubectl.run("scale", *deployment, "--replicas=0")
    try:
        wait_until("the reconciler to be gone", lambda: not kubectl.list("pods", SYSTEM), 90)
        yield
    finally:
        kubectl.run("scale", *deployment, "--replicas=1")
    kubectl.run("rollout", "status", *deployment, "--timeout=120s", timeout=150)


def decision_model(name: str, namespace: str, model: str, **spec: Any) -> Object:
    """Return a DecisionModel manifest with small requests."""
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": model, "resources": SMALL, "cache": {"size": "64Mi"}, **spec},
    }


def is_serving_its_spec(model: Object) -> bool:
    """Whether the stable revision is of the model that the spec names, with all replicas ready."""
    status = model["status"]
    stable = status.get("stableRevision", {})
    replicas = status.get("replicas", {})
    wanted = model["spec"].get("replicas", 1)
    return bool(stable.get("model") == model["spec"]["model"] and replicas.get("modelReady") == wanted)


def gate(pod: Object) -> Object:
    """Return the readiness gate's condition of a Pod, empty before the first probe."""
    return dict(condition(pod, GATE))


def reason(model: Object, type_: str) -> str:
    """Return the reason of a condition."""
    return str(condition(model, type_).get("reason", ""))


@contextmanager
def asked_all_along(bench: Bench, name: str, *keys: str) -> Iterator[Callable[[], Object]]:
    """Let a client in the cluster ask `name` every 50 ms; what is yielded returns what it has counted until then."""
    asking = Asking(bench.kubectl, bench.environment.images.registry.name, name, bench.namespace, keys)
    asking.start()
    yield partial(counted_until_now, asking)
    asking.stop()


def counted_until_now(asking: Asking) -> Object:
    """Return what a client has counted, once that includes what it sees at this moment."""
    before = asking.tally()["asked"]
    return wait_until(
        "the client to tell of this moment", lambda: t if (t := asking.tally())["asked"] > before + 20 else None, 30
    )


@contextmanager
def no_failed_request(bench: Bench, name: str) -> Iterator[None]:
    """Let a client in the cluster ask `name` every 50 ms, and insist that it always got its answer."""
    with asked_all_along(bench, name) as counted:
        yield
        tally = counted()
    assert tally["failed"] == 0, tally
