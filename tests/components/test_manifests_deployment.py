"""Serving Deployments (spec section 4.5)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from components.desired import EnvironmentVariable, Placement, Serving, Store
from components.names import owner_reference
from tests.components.stacks import (
    IMAGE,
    LABELS,
    OWNER,
    REVISION,
    SERVING,
    SHARED_STORE,
    STORE,
    job_pod,
    rendered,
    serving_pod,
    stack,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SAME_NODE = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
DRAWN = {"weight": 100, "podAffinityTerm": SAME_NODE}


def deployment(store: Store = STORE, **changes: Any) -> Any:
    return rendered(stack(store=store, serving=replace(SERVING, **changes)), "Deployment")


def container(**changes: Any) -> Any:
    (only,) = serving_pod(**changes)["containers"]
    return only


def test_it_selects_its_own_pods_by_name_and_revision() -> None:
    obj = deployment(replicas=3)
    assert obj["metadata"]["name"] == f"laya-{REVISION}"
    assert obj["metadata"]["labels"] == LABELS
    assert obj["metadata"]["ownerReferences"] == [owner_reference(OWNER)]
    assert obj["spec"]["replicas"] == 3
    assert obj["spec"]["selector"] == {"matchLabels": LABELS}
    assert obj["spec"]["template"]["metadata"] == {"labels": LABELS}


def test_its_pods_have_the_identity_of_prefetching_and_the_readiness_gate() -> None:
    pod = serving_pod()
    assert pod["securityContext"] == job_pod()["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["readinessGates"] == [{"conditionType": "decisionmodel.io/model-ready"}]


def test_its_container_is_locked_down_and_probed_without_a_readiness_probe() -> None:
    only = container()
    assert only["name"] == "ollaya"
    assert only["image"] == IMAGE
    assert only["ports"] == [{"name": "http", "containerPort": 11435, "protocol": "TCP"}]
    assert only["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    get = {"path": "/", "port": "http"}
    assert only["startupProbe"] == {"httpGet": get, "periodSeconds": 2, "failureThreshold": 30}
    assert only["livenessProbe"] == {"httpGet": get, "periodSeconds": 10}
    assert "readinessProbe" not in only


def test_it_reads_the_revisions_directory_and_writes_scratch_space() -> None:
    assert container()["volumeMounts"] == [
        {"name": "store", "mountPath": "/models", "subPath": REVISION, "readOnly": True},
        {"name": "ollaya-state", "mountPath": "/home/ollaya/.ollaya"},
    ]
    assert serving_pod()["volumes"] == [
        {"name": "store", "persistentVolumeClaim": {"claimName": f"laya-store-{REVISION}"}},
        {"name": "ollaya-state", "emptyDir": {}},
    ]


def test_variables_do_not_depend_on_the_order_in_which_they_were_given() -> None:
    reversed_ = tuple(reversed(SERVING.environment))
    assert deployment(environment=reversed_) == deployment()
    assert container()["env"] == [
        {
            "name": "OLLAYA_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": "keys", "key": "serving", "optional": False}},
        },
        {"name": "OLLAYA_MODELS", "value": "/models"},
    ]


def test_resources_and_placement_are_rendered_as_given() -> None:
    placement = Placement(
        node_selector={"kubernetes.io/arch": "amd64"},
        tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
        affinity={"nodeAffinity": {REQUIRED: {}}},
        runtime_class_name="nvidia",
    )
    pod = serving_pod(placement=placement, resources={"limits": {"nvidia.com/gpu": "1"}, "requests": {}})
    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert pod["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["affinity"] == {"nodeAffinity": {REQUIRED: {}}, "podAffinity": {PREFERRED: [DRAWN]}}
    assert pod["runtimeClassName"] == "nvidia"


def test_nothing_empty_is_rendered() -> None:
    assert "resources" not in container(resources={})
    assert not {"nodeSelector", "tolerations", "affinity", "runtimeClassName"} & serving_pod(store=SHARED_STORE).keys()


@pytest.mark.parametrize(
    ("modes", "device", "strategy"),
    [
        (("ReadWriteOnce",), "cpu", {"type": "Recreate"}),
        (("ReadWriteOnce",), "cuda", {"type": "Recreate"}),
        (("ReadWriteOncePod",), "cpu", {"type": "Recreate"}),
        (
            ("ReadWriteMany",),
            "cuda",
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        ),
        (
            ("ReadWriteOnce", "ReadOnlyMany"),
            "cpu",
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        ),
    ],
)
def test_the_update_strategy_follows_store_and_device(
    modes: tuple[str, ...], device: str, strategy: dict[str, Any]
) -> None:
    assert deployment(store=replace(STORE, access_modes=modes), device=device)["spec"]["strategy"] == strategy


def test_checksums_go_where_they_are_asked_for() -> None:
    recorded = deployment(api_key_checksum="aa")
    assert recorded["metadata"]["annotations"]["decisionmodel.io/apikey-checksum"] == "aa"
    assert "annotations" not in recorded["spec"]["template"]["metadata"]
    rotated = deployment(api_key_checksum="aa", template_api_key_checksum="bb")
    assert rotated["spec"]["template"]["metadata"]["annotations"] == {"decisionmodel.io/apikey-checksum": "bb"}
    assert "decisionmodel.io/apikey-checksum" not in deployment()["metadata"]["annotations"]


def spec_hash(serving: Serving, store: Store = STORE) -> str:
    annotations = rendered(stack(store=store, serving=serving), "Deployment")["metadata"]["annotations"]
    return str(annotations["decisionmodel.io/spec-hash"])


def test_the_spec_hash_covers_replicas_pod_spec_strategy_and_template_annotations() -> None:
    obj = deployment(template_api_key_checksum="bb")
    covered = {
        "replicas": obj["spec"]["replicas"],
        "podSpec": obj["spec"]["template"]["spec"],
        "strategy": obj["spec"]["strategy"],
        "annotations": {"decisionmodel.io/apikey-checksum": "bb"},
    }
    digest = hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()
    assert obj["metadata"]["annotations"]["decisionmodel.io/spec-hash"] == digest[:16]


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 2},
        {"image": "other"},
        {"environment": (EnvironmentVariable(name="A", value="b"),)},
        {"resources": {}},
        {"placement": Placement(runtime_class_name="nvidia")},
        {"template_api_key_checksum": "bb"},
    ],
    ids=str,
)
def test_the_spec_hash_follows_every_change_of_what_runs(change: dict[str, Any]) -> None:
    assert spec_hash(replace(SERVING, **change)) != spec_hash(SERVING)


def test_the_spec_hash_follows_the_strategy_but_not_the_recorded_checksum() -> None:
    assert spec_hash(SERVING, SHARED_STORE) != spec_hash(SERVING)
    assert spec_hash(replace(SERVING, api_key_checksum="aa")) == spec_hash(SERVING)


def test_a_frozen_template_is_rendered_as_it_is() -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "ollaya", "image": "old"}]}}
    obj = deployment(template=template, replicas=2)
    assert obj["spec"]["template"] == template
    assert obj["spec"]["replicas"] == 2
