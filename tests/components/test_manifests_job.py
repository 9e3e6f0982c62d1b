"""Prefetch Jobs (spec section 4.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from components import paths
from components.desired import EnvironmentVariable, Placement
from components.names import owner_reference
from components.selinux import selinux_level
from tests.components.stacks import IMAGE, LABELS, OWNER, PREFETCH, REVISION, job_pod, rendered, stack

PLACEMENT = Placement(
    node_selector={"disk": "ssd"},
    tolerations=({"key": "batch", "operator": "Exists"},),
    affinity={"nodeAffinity": {}},
)


def job() -> Any:
    return rendered(stack(), "Job")


def mounts(**changes: Any) -> dict[str, Any]:
    return {mount["mountPath"]: mount for mount in job_pod(**changes)["containers"][0]["volumeMounts"]}


def test_a_job_carries_the_revisions_labels_and_its_owner() -> None:
    metadata = job()["metadata"]
    assert (metadata["name"], metadata["namespace"]) == (f"laya-pf-{REVISION}", "team-a")
    assert metadata["labels"] == LABELS
    assert metadata["ownerReferences"] == [owner_reference(OWNER)]
    assert metadata["annotations"]["pulumi.com/deletionPropagationPolicy"] == "background"


def test_its_pods_never_match_the_selector_of_a_service() -> None:
    labels = job()["spec"]["template"]["metadata"]["labels"]
    assert labels == {"decisionmodel.io/name": "laya", "decisionmodel.io/prefetch-revision": REVISION}


FAIL_AT_ONCE = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "prefetch", "operator": "In", "values": [3, 4, 5, 6]},
}
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_attempts_and_time_are_bounded_and_permanent_failures_end_it() -> None:
    spec = job()["spec"]
    assert spec["backoffLimit"] == 4
    assert spec["activeDeadlineSeconds"] == 1800
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert FAIL_AT_ONCE in spec["podFailurePolicy"]["rules"]
    assert "ttlSecondsAfterFinished" not in spec


def test_a_pod_that_is_evicted_counts_as_no_failure_whatever_it_ended_with() -> None:
    assert job()["spec"]["podFailurePolicy"]["rules"] == [IGNORE_DISRUPTIONS, FAIL_AT_ONCE], "the first that matches"


def test_a_job_of_an_earlier_version_keeps_the_policy_it_was_made_with() -> None:
    made = rendered(stack(prefetch=replace(PREFETCH, ignores_disruptions=False)), "Job")
    assert made["spec"]["podFailurePolicy"] == {"rules": [FAIL_AT_ONCE]}


def test_its_container_runs_the_script_with_fixed_resources() -> None:
    (container,) = job_pod()["containers"]
    assert container["name"] == "prefetch"
    assert container["image"] == IMAGE
    assert container["command"] == ["/bin/sh", "-c", PREFETCH.script]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_secrets_are_referenced_and_must_exist() -> None:
    (container,) = job_pod()["containers"]
    assert container["env"] == [
        {"name": "MODEL", "value": "laya:en"},
        {
            "name": "OLLAYA_HF_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token", "optional": False}},
        },
    ]


def test_variables_are_literal() -> None:
    hostile = EnvironmentVariable(name="MODEL", value="$(OLLAYA_HF_TOKEN)$")
    (container,) = job_pod(environment=(hostile,))["containers"]
    assert container["env"] == [{"name": "MODEL", "value": "$$(OLLAYA_HF_TOKEN)$$"}]


def test_it_runs_under_the_same_identity_as_serving_and_without_rights() -> None:
    pod = job_pod()
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": selinux_level("team-a", "laya")},
    }
    assert pod["containers"][0]["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_is_placed_as_asked() -> None:
    pod = job_pod(placement=PLACEMENT)
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "batch", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert not {"nodeSelector", "tolerations", "affinity", "runtimeClassName"} & job_pod().keys()


def test_it_writes_the_revisions_directory_and_scratch_space_only() -> None:
    assert mounts() == {
        "/models": {"name": "store", "mountPath": "/models", "subPath": REVISION},
        "/home/ollaya/.ollaya": {"name": "ollaya-state", "mountPath": "/home/ollaya/.ollaya"},
    }
    assert job_pod()["volumes"] == [
        {"name": "store", "persistentVolumeClaim": {"claimName": f"laya-store-{REVISION}"}},
        {"name": "ollaya-state", "emptyDir": {}},
    ]


def test_pruning_adds_the_whole_volume() -> None:
    assert mounts(prune=True)["/store-root"] == {"name": "store", "mountPath": "/store-root"}


def test_a_seed_is_one_read_only_file_that_must_exist() -> None:
    mount = mounts(seeded=True)[paths.SEED_DIRECTORY]
    assert mount["readOnly"] is True
    (volume,) = [volume for volume in job_pod(seeded=True)["volumes"] if volume["name"] == mount["name"]]
    assert volume["configMap"] == {
        "name": f"laya-manifest-{REVISION}",
        "defaultMode": 0o444,
        "items": [{"key": "manifest", "path": "manifest"}],
        "optional": False,
    }
    assert f"{mount['mountPath']}/{volume['configMap']['items'][0]['path']}" == paths.SEED_FILE
