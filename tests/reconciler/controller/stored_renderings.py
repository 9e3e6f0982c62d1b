"""What commit 6cd8b12 rendered for a broad set of DecisionModels, stored once and never made anew.

The file was written by this module, run in a checkout of that commit with this file copied into it:

    .venv/bin/python -m tests.reconciler.controller.stored_renderings

Later versions only read it: what those clusters hold must stay as it is. A case that is added is rendered in the same
way, by that commit and not by today's code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from api.decisionmodel import DecisionModel
from api.status import RevisionStatus
from components.desired import EnvironmentVariable
from components.manifests import render
from components.program import ProviderSettings
from reconciler.controller.credentials import ApiKey
from reconciler.controller.observation import Children
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.revisions import ChosenImage, choose_image, wanted_revision
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.rollout import RevisionPlan, StackPlan

FILE: Final = Path(__file__).with_name("renderings-6cd8b12.json")

_METADATA: Final = {"name": "router", "namespace": "team-a", "uid": "5f0c1a52-7f2d-4a3e-9d55-0123456789ab"}
_KEY: Final = ApiKey(value="k", checksum="c" * 16, legacy_checksum="1" * 16)
_PROXY: Final = (EnvironmentVariable(name="HTTPS_PROXY", value="http://proxy.example:3128"),)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ZONE: Final = "topology.kubernetes.io/zone"
_TERM: Final = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": _ZONE}

_SHARED: Final = {"cache": {"accessModes": ["ReadWriteMany"], "storageClassName": "nfs"}}
_KEYED: Final = {"auth": {"apiKeySecretRef": {"name": "keys", "key": "serving"}}}
_EVALUATION: Final = {"datasetRef": {"secretRef": {"name": "golden", "key": "cases.jsonl"}}, "minAccuracy": "0.9"}
_SCHEDULING: Final = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, {"operator": "Exists"}],
}
_AFFINITY: Final = {
    "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": _ZONE, "operator": "Exists"}]}]}},
    "podAffinity": {_PREFERRED: [{"weight": 50, "podAffinityTerm": _TERM}]},
    "podAntiAffinity": {_REQUIRED: [_TERM]},
}

_SPECS: Final[dict[str, dict[str, Any]]] = {
    "as few words as possible": {},
    "three replicas": {"replicas": 3},
    "three replicas that any node can serve": {"replicas": 3, **_SHARED},
    "one replica that any node can serve": _SHARED,
    "a store for one Pod": {"cache": {"accessModes": ["ReadWriteOncePod"], "size": "20Gi", "storageClassName": ""}},
    "a small store": {"cache": {"size": "64Mi"}},
    "cuda": {"device": "cuda"},
    "cuda, two replicas": {"device": "cuda", "replicas": 2},
    "cuda that any node can serve": {"device": "cuda", "replicas": 2, **_SHARED},
    "cuda, placed": {"device": "cuda", "scheduling": {**_SCHEDULING, "runtimeClassName": "nvidia"}},
    "cuda, resources": {"device": "cuda", "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "8Gi"}}},
    "resources": {"resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": "2", "memory": "4Gi"}}},
    "placed": {"scheduling": _SCHEDULING, "replicas": 2},
    "affinity": {"scheduling": {"affinity": _AFFINITY}, "replicas": 2},
    "required pod affinity": {"scheduling": {"affinity": {"podAffinity": {_REQUIRED: [_TERM]}}}},
    "required pod affinity that any node can serve": {
        "scheduling": {"affinity": {"podAffinity": {_REQUIRED: [_TERM]}}},
        "replicas": 2,
        **_SHARED,
    },
    "a key": _KEYED,
    "a token": {"cache": {"downloadTokenSecretRef": {"name": "hub", "key": "token"}}},
    "its own image": {"image": "registry.example/team/ollaya:1@sha256:" + "9" * 64},
    "its own image, cuda": {"image": "registry.example/team/ollaya:1-cuda", "device": "cuda"},
    "an earlier runtime": {"runtimeVersion": "0.9.0", "resources": {"limits": {"cpu": "4"}}},
    "another model": {"model": "laya:multilingual"},
    "a model of another host": {"model": "registry.example/team/router:v1"},
    "a pinned digest": {"digest": "b" * 64},
    "Recreate": {"rollout": {"strategy": "Recreate"}},
    "Manual": {"rollout": {"promotion": "Manual", "stabilization": "5m", "timeouts": {"caching": "1h"}}},
    "evaluated": {"rollout": {"evaluation": _EVALUATION}},
}

_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "a mirror": {"hf_endpoint": "https://hf.example", "registries": RegistryPolicy(registry_url="https://m.example")},
    "a proxy": {"proxy": _PROXY},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """One DecisionModel with the record of its revision and the objects of its stack, as that commit had them."""

    name: str
    model: DecisionModel
    objects: tuple[dict[str, Any], ...]

    @property
    def revision(self) -> RevisionStatus:
        """The revision that serves."""
        assert self.model.status.stable_revision is not None
        return self.model.status.stable_revision


def read() -> tuple[Rendering, ...]:
    """Return everything that is stored."""
    return tuple(
        Rendering(
            name=name, model=DecisionModel.model_validate(stored["model"]), objects=tuple(map(_live, stored["objects"]))
        )
        for name, stored in json.loads(FILE.read_text(encoding="utf-8")).items()
    )


def settings_of(name: str) -> ControllerSettings:
    """Return the operator's settings that a case was rendered with."""
    provider = ProviderSettings(cluster_identifier="tests")
    common: dict[str, Any] = {"registries": RegistryPolicy(), "provider": provider, "allow_image_override": True}
    return ControllerSettings(**(common | _SETTINGS.get(name, {})))


def plan_of(model: DecisionModel, revision: RevisionStatus) -> StackPlan:
    """Return the plan of a model that only serves."""
    plan = RevisionPlan(revision=revision, serve=True, disruption_budget=model.spec.replicas > 1)
    return StackPlan(revisions=(plan,), selected=revision.hash)


def surroundings_of(name: str, model: DecisionModel, revision: RevisionStatus, children: Children) -> Surroundings:
    """Return what a case was rendered in, beside the objects that exist."""
    return Surroundings(
        settings=settings_of(name),
        children=children,
        seeded=frozenset({revision.hash}),
        api_key=_KEY if model.spec.auth.api_key_secret_ref else None,
    )


def _live(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server returns it; a Job has done its work."""
    metadata = obj["metadata"] | {"uid": f"uid-of-{obj['kind']}", "creationTimestamp": "2026-01-02T03:04:05Z"}
    done = {"conditions": [{"type": "Complete", "status": "True"}]} if obj["kind"] == "Job" else {}
    return {**obj, "metadata": metadata, "status": done}


def _stored(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    declared = {"metadata": _METADATA, "spec": {"model": "laya:en", **spec}}
    model = DecisionModel.model_validate(declared)
    image = choose_image(model.spec, None, settings_of(name))
    assert isinstance(image, ChosenImage), image
    revision = wanted_revision(model.spec, model.spec.digest or "a" * 64, image, settings_of(name))
    around = surroundings_of(name, model, revision, Children())
    manifests = render(desired_stack(model, plan_of(model, revision), around))
    status = {"phase": "Ready", "stableRevision": revision.dump(), "lastPromotionTime": "2026-01-02T04:00:00Z"}
    return {"model": {**declared, "status": status}, "objects": [_without_script(each.object) for each in manifests]}


def _without_script(obj: Any) -> Any:
    """The object without the prefetch script, which is the larger part of it and means nothing once it has run."""
    stored = json.loads(json.dumps(obj))
    if stored["kind"] == "Job":
        stored["spec"]["template"]["spec"]["containers"][0]["command"][-1] = "..."
    return stored


if __name__ == "__main__":
    everything = {name: _stored(name, spec) for name, spec in (_SPECS | {key: {} for key in _SETTINGS}).items()}
    lines = (f"{json.dumps(name)}:{json.dumps(case, separators=(',', ':'))}" for name, case in everything.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
