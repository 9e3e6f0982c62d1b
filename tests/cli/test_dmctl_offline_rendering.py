"""Rendering without a cluster: what the reconciler would make of a DecisionModel, and nothing of what is none."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from cli.policy.offline import rendered_objects
from policy import Configuration, read_configuration
from tests.policy.damage import damaged
from tests.policy.manifests import model

EVERYTHING = model(
    digest="ab" * 32,
    replicas=2,
    resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "6Gi"}},
    scheduling={"nodeSelector": {"pool": "models"}, "runtimeClassName": "any"},
    cache={"size": "4Gi", "accessModes": ["ReadWriteMany"], "storageClassName": "fast"},
    auth={"apiKeySecretRef": {"name": "keys", "key": "k"}},
    rollout={"timeouts": {"caching": "1h"}},
)


def kinds(manifest: Any) -> list[str]:
    return sorted(each["kind"] for each in rendered_objects(manifest, Configuration()))


def test_a_model_has_the_objects_that_it_serves_with() -> None:
    assert kinds(model()) == ["Deployment", "Job", "PersistentVolumeClaim", "Service"]
    assert kinds(EVERYTHING) == ["Deployment", "Job", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"]


def test_nothing_is_rendered_for_what_the_api_or_the_runtime_refuses() -> None:
    assert kinds(model(replicas=0)) == []
    assert kinds(model(runtimeVersion="0.1.0")) == []
    assert kinds({"kind": "DecisionModel"}) == []


def test_the_configured_registry_is_the_one_that_is_rendered() -> None:
    rules = {"model-registry-allowed": {"registry": "https://models.example.com"}}
    objects = rendered_objects(model(), read_configuration({"rules": rules}))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "OLLAYA_REGISTRY", "value": "https://models.example.com"} in container["env"]


@settings(max_examples=50)
@given(damaged(EVERYTHING))
def test_any_model_is_rendered_or_not(manifests: list[Any]) -> None:
    rendered_objects(manifests[0], Configuration())
