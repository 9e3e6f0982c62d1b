"""What version 0.3 serves is taken over without being touched, and rolled on from there: on the real cluster.

The reconciler is stopped while that version's objects come to life, as they had before anybody upgraded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from api.decisionmodel import DecisionModel
from api.keys import API_KEY_CHECKSUM_ANNOTATION, API_KEY_LABEL, GATE
from components.program import ProviderSettings
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.api_key import legacy_checksum
from reconciler.engine.images import RuntimeVersion, runtime_image
from reconciler.engine.registry_policy import RegistryPolicy
from tests.cluster.observing import Bench, gate, no_failed_request, reason, without_reconciler
from tests.fakes.version_0_3 import IMAGE, LeftBehind, left_behind
from tools.environment import MANIFESTS_PORT, REGISTRY, WEIGHTS_PORT, load
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

HOST = f"{REGISTRY}.{REGISTRY}.svc"
SETTINGS = ControllerSettings(
    registries=RegistryPolicy(
        registry_url=f"http://{HOST}:{MANIFESTS_PORT}",
        allowed=frozenset({f"{HOST}:{MANIFESTS_PORT}"}),
        allow_insecure=True,
    ),
    provider=ProviderSettings(kubeconfig="", cluster_identifier=""),
    hf_endpoint=f"http://{HOST}:{WEIGHTS_PORT}",
)
PINNED_IMAGE = runtime_image(RuntimeVersion(0, 10, 0), "cpu").reference
KEY = b"the-key-of-version-0.3"
PLAIN, KEYED = NAMES = ("plain", "keyed")


@dataclass(frozen=True, slots=True)
class Served:
    """A model that version 0.3 serves: what it left, and who answers for it."""

    left: LeftBehind
    gate_opened: str
    pod_uid: str
    store_uid: str


def test_what_version_0_3_serves_is_taken_over_untouched_and_rolled_on_from_there(bench: Bench) -> None:
    load(bench.environment.cluster, bench.environment.images.runtime, (IMAGE, PINNED_IMAGE))
    with ExitStack() as asked:
        with without_reconciler(bench.kubectl):
            served = served_by_0_3(bench)
            asked.enter_context(no_failed_request(bench, PLAIN))
        for name in NAMES:
            assert_taken_over(bench, name, served[name])
        bench.edit(PLAIN, model="laya:en-better")
        stable = bench.wait_ready(PLAIN, 120)["status"]["stableRevision"]
        assert len(stable["hash"]) == 16
        assert stable["image"] == PINNED_IMAGE, "what serves decides the runtime's version, and now it is pinned"
        bench.wait_selected(PLAIN, stable["hash"])
        wait_until("what version 0.3 left to go", partial(is_gone, bench, PLAIN, stable["hash"]), 120)
    assert bench.told(PLAIN, "Promoted") == 1
    assert_same_pod(bench, KEYED, served[KEYED])
    deployment = bench.kubectl.get("deployment", f"{KEYED}-{served[KEYED].left.revision}", bench.namespace)
    assert deployment
    assert deployment["metadata"]["annotations"][API_KEY_CHECKSUM_ANNOTATION] != legacy_checksum(KEY)


def served_by_0_3(bench: Bench) -> Mapping[str, Served]:
    """Let version 0.3 roll its models out."""
    left = {name: declared_under_0_3(bench, name, spec) for name, spec in specs(bench).items()}
    for name in NAMES:
        create(bench, *(left[name].objects[kind] for kind in ("PersistentVolumeClaim", "Job")))
    for name in NAMES:
        job = left[name].objects["Job"]["metadata"]["name"]
        bench.kubectl.run("wait", f"job/{job}", "-n", bench.namespace, "--for=condition=complete", "--timeout=60s")
        create(bench, *(left[name].objects[kind] for kind in ("Deployment", "Service")))
    return {name: proved_by_0_3(bench, name, left[name]) for name in NAMES}


def specs(bench: Bench) -> Mapping[str, dict[str, Any]]:
    """Return the models' specs: one that anybody may ask, and one with a key, whose Secret is created."""
    metadata = {"name": "key", "namespace": bench.namespace, "labels": {API_KEY_LABEL: "true"}}
    data = {"value": base64.b64encode(KEY).decode()}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    return {
        PLAIN: {"rollout": {"stabilization": "0s"}},
        KEYED: {"auth": {"apiKeySecretRef": {"name": "key", "key": "value"}}},
    }


def declared_under_0_3(bench: Bench, name: str, spec: Mapping[str, Any]) -> LeftBehind:
    bench.declare(name, **spec)
    model = DecisionModel.model_validate(bench.model(name))
    digest = json.loads(bench.registry("GET", "/tags"))["library/laya:en"]
    checksum = legacy_checksum(KEY) if name == KEYED else None
    return left_behind(model, digest, SETTINGS, api_key_checksum=checksum)


def create(bench: Bench, *objects: Object) -> None:
    """Create objects, which unlike applying leaves no mark of the client in them."""
    bench.kubectl.run("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def proved_by_0_3(bench: Bench, name: str, left: LeftBehind) -> Served:
    """Load the model, open the gate and write the status."""
    pod = wait_until(f"a running Pod of {name}", lambda: running_pod(bench, name, left), 60)
    name_of_pod = pod["metadata"]["name"]
    bench.load(name_of_pod, "laya:en", -1, key=KEY.decode() if name == KEYED else "")
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    opened = {"type": GATE, "status": "True", "reason": "ModelReady", "lastTransitionTime": since}
    patch_status(bench, "pod", name_of_pod, {"conditions": [opened]}, "strategic")
    patch_status(bench, "decisionmodel", name, left.status, "merge")
    wait_until(f"the endpoint of {name}", lambda: bench.endpoints(name), 30)
    return Served(left, since, uid_of(pod), uid_of(store_of(bench, name)))


def store_of(bench: Bench, name: str) -> Object:
    claim = bench.kubectl.get("pvc", f"{name}-store", bench.namespace)
    assert claim
    return claim


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def running_pod(bench: Bench, name: str, left: LeftBehind) -> Object | None:
    pods = bench.serving_pods(name, left.revision)
    return next((pod for pod in pods if condition(pod, "ContainersReady").get("status") == "True"), None)


def patch_status(bench: Bench, kind: str, name: str, status: Object, how: str) -> None:
    patch = json.dumps({"status": status})
    target = (kind, name, "-n", bench.namespace)
    bench.kubectl.run("patch", *target, "--subresource=status", f"--type={how}", "-p", patch)


def assert_taken_over(bench: Bench, name: str, served: Served) -> None:
    """Wait until the platform knows the model as its own, and look at what it did for that."""
    bench.wait(name, "recognised", partial(is_recognised, served.left.revision), 60)
    wait_until(f"the stack of {name} to hold its objects", lambda: is_in_stack(bench, name), 60)
    model = bench.wait(name, "Ready", lambda dm: phase(dm) == "Ready", 30)
    assert reason(model, "RuntimeUpdateAvailable") == "RuntimeUpdateAvailable"
    assert bench.selected(name) == served.left.revision
    assert_same_pod(bench, name, served)
    assert "candidateRevision" not in model["status"]
    assert bench.children(name)["PersistentVolumeClaim"] == [f"{name}-store"]
    assert uid_of(store_of(bench, name)) == served.store_uid
    told = {event for event, _ in bench.events(name)}
    assert not told & {"PrefetchStarted", "RevisionStarting", "Promoted", "StoreLost", "ProbeMismatch"}


def assert_same_pod(bench: Bench, name: str, served: Served) -> None:
    """The Pod was neither replaced nor restarted, and never left the Service."""
    (pod,) = bench.serving_pods(name, served.left.revision)
    assert uid_of(pod) == served.pod_uid
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert (gate(pod)["status"], gate(pod)["lastTransitionTime"]) == ("True", served.gate_opened)


def is_recognised(revision: str, model: Object) -> bool:
    """Whether the record was completed under the name it had."""
    stable = model["status"]["stableRevision"]
    return bool((stable["hash"], stable.get("placement")) == (revision, "none"))


def is_in_stack(bench: Bench, name: str) -> bool:
    """Whether the engine has applied the Service, which it does last."""
    service = bench.kubectl.get("service", name, bench.namespace)
    return bool(service and "pulumi.com/patchForce" in service["metadata"].get("annotations", {}))


def is_gone(bench: Bench, name: str, kept: str) -> bool:
    """Whether nothing but the new revision's objects is left."""
    children = bench.children(name)
    kinds = ("Deployment", "PersistentVolumeClaim", "Job", "Pod")
    return all(kept in child for kind in kinds for child in children.get(kind, ()))
