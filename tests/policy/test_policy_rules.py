"""Every rule: what passes, what it finds and where."""

from __future__ import annotations

from typing import Any

import pytest

from policy import RULES, Level, blocking, check, read_configuration
from reconciler.engine.images import DEFAULT_VERSION, runtime_image
from tests.policy.manifests import REMOVED, REVISION, changed, found, model, objects, one

PINNED = "registry.example.com/team/runtime:1@sha256:" + "0" * 64
CONTAINER = "spec/template/spec/containers/0"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "team-a"}}


def sized(memory: str, name: str = "laya:en", **spec: Any) -> dict[str, Any]:
    return model(model=name, resources={"limits": {"memory": memory}}, **spec)


def environment_variable(**variable: Any) -> Any:
    return changed(one("Deployment"), f"{CONTAINER}/env/0", variable)


def variables_from(**source: Any) -> Any:
    return changed(one("Deployment"), f"{CONTAINER}/envFrom", [source])


def image_volume(**image: Any) -> Any:
    volumes = one("Deployment")["spec"]["template"]["spec"]["volumes"]
    mounted = [*volumes, {"name": "models", "image": image}]
    return changed(one("Deployment"), "spec/template/spec/volumes", mounted)


def workload(kind: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return a workload of any kind with the Pods of the rendered Deployment, under these labels and without a gate."""
    template = one("Deployment")["spec"]["template"]
    del template["spec"]["readinessGates"]
    pod = {"metadata": {"name": "other", "labels": labels}, "spec": template["spec"]}
    match kind:
        case "Pod":
            return {"kind": kind, **pod}
        case "CronJob":
            return {"kind": kind, "metadata": {"name": "other"}, "spec": {"jobTemplate": {"spec": {"template": pod}}}}
        case _:
            return {"kind": kind, "metadata": {"name": "other"}, "spec": {"template": pod}}


NEAR_OTHERS = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
}

FAILING = [
    ("decisionmodel-valid", model(model="laya"), "spec.model"),
    ("decisionmodel-valid", model(replicas=0), "spec.replicas"),
    ("decisionmodel-valid", changed(model(), "spec", REMOVED), "spec"),
    ("decisionmodel-valid", model(cache={"size": "lots"}), "spec.cache.size"),
    ("decisionmodel-valid", changed(model(), "metadata/name", "Laya"), ""),
    ("fields-known", model(replicsa=2), "spec.replicsa"),
    ("fields-known", model(cache={"storageClas": "fast"}), "spec.cache.storageClas"),
    ("fields-known", model(scheduling={"tolerations": [{"kee": "x"}]}), "spec.scheduling.tolerations[0].kee"),
    ("model-registry-allowed", model(model="models.example.com/team/laya:en"), "spec.model"),
    ("model-registry-allowed", model(model="ollaya.dev:8443/library/laya:en"), "spec.model"),
    ("model-registry-allowed", model(model="not a name:en"), "spec.model"),
    ("model-registry-allowed", model(model=["laya:en"]), "spec.model"),
    (
        "model-registry-allowed",
        environment_variable(name="OLLAYA_REGISTRY", value="https://models.example.com"),
        "spec.template.spec.containers[0].env[0]",
    ),
    (
        "model-registry-allowed",
        environment_variable(name="OLLAYA_REGISTRY", valueFrom={"configMapKeyRef": {"name": "any", "key": "any"}}),
        "spec.template.spec.containers[0].env[0]",
    ),
    (
        "model-registry-allowed",
        environment_variable(name="MODEL", value="models.example.com/team/laya:en"),
        "spec.template.spec.containers[0].env[0].value",
    ),
    *(
        (rule, variables_from(**source), "spec.template.spec.containers[0].envFrom[0]")
        for rule in ("model-registry-allowed", "registry-uses-tls")
        for source in ({"configMapRef": {"name": "any"}}, {"secretRef": {"name": "any"}, "prefix": "OLLAYA_"})
    ),
    ("registry-uses-tls", model(model="http://ollaya.dev/library/laya:en"), "spec.model"),
    ("registry-uses-tls", model(model="HTTP://ollaya.dev/library/laya:en"), "spec.model"),
    (
        "registry-uses-tls",
        environment_variable(name="OLLAYA_REGISTRY", value="http://ollaya.dev"),
        "spec.template.spec.containers[0].env[0]",
    ),
    (
        "registry-uses-tls",
        environment_variable(name="OLLAYA_HF_ENDPOINT", value=" HTTP://weights.example.com"),
        "spec.template.spec.containers[0].env[0]",
    ),
    ("image-registry-allowed", model(image=PINNED), "spec.image"),
    (
        "image-registry-allowed",
        changed(one("Job"), f"{CONTAINER}/image", "ghcr.io/ollaya-dev-evil/ollaya:1"),
        "spec.template.spec.containers[0].image",
    ),
    ("image-registry-allowed", model(image="ghcr.io/ollaya-dev/../evil/ollaya:1"), "spec.image"),
    ("image-registry-allowed", model(image="ollaya-dev/ollaya"), "spec.image"),
    ("image-registry-allowed", model(image="ollaya"), "spec.image"),
    ("image-registry-allowed", model(image=17), "spec.image"),
    *(
        ("image-registry-allowed", model(image=image), "spec.image")
        for image in ("GHCR.io/ollaya-dev/other:1", "ghcr.io/Ollaya-dev/other:1", "OLLAYA-DEV/ollaya:1")
    ),
    (
        "image-registry-allowed",
        changed(one("Deployment"), "spec/template/spec/initContainers", [{"name": "first", "image": "busybox"}]),
        "spec.template.spec.initContainers[0].image",
    ),
    *(
        (rule, image_volume(**image), "spec.template.spec.volumes[2].image.reference")
        for rule in ("image-registry-allowed", "image-pinned-by-digest", "custom-image-allowed")
        for image in ({"reference": "models.example.com/laya:latest"}, {"pullPolicy": "Always"})
    ),
    ("image-pinned-by-digest", model(image="ghcr.io/ollaya-dev/ollaya:0.12.0"), "spec.image"),
    ("image-pinned-by-digest", model(image="ghcr.io/ollaya-dev/ollaya@sha256:12"), "spec.image"),
    ("image-pinned-by-digest", model(image=f"{PINNED}0"), "spec.image"),
    ("image-pinned-by-digest", model(image=f"{PINNED}\n"), "spec.image"),
    ("image-pinned-by-digest", model(runtimeVersion="99.0.0"), "spec.runtimeVersion"),
    (
        "image-pinned-by-digest",
        changed(one("Deployment"), f"{CONTAINER}/image", REMOVED),
        "spec.template.spec.containers[0].image",
    ),
    ("custom-image-allowed", model(image=PINNED), "spec.image"),
    (
        "custom-image-allowed",
        changed(one("Deployment"), f"{CONTAINER}/image", "ghcr.io/ollaya-dev/other@sha256:" + "0" * 64),
        "spec.template.spec.containers[0].image",
    ),
    (
        "readiness-gate-present",
        changed(one("Deployment"), "spec/template/spec/readinessGates", REMOVED),
        "spec.template.spec.readinessGates",
    ),
    (
        "readiness-gate-present",
        changed(one("Deployment"), "spec/template/spec/readinessGates", [{"conditionType": "example.com/other"}]),
        "spec.template.spec.readinessGates",
    ),
    (
        "readiness-gate-present",
        changed(one("Deployment"), f"{CONTAINER}/readinessProbe", {"httpGet": {"path": "/", "port": "http"}}),
        "spec.template.spec.containers[0].readinessProbe",
    ),
    (
        "readiness-gate-present",
        changed(one("Service"), "spec/publishNotReadyAddresses", True),
        "spec.publishNotReadyAddresses",
    ),
    (
        "readiness-gate-present",
        {
            "kind": "Service",
            "metadata": {"name": "early"},
            "spec": {"selector": {"decisionmodel.io/revision": REVISION}, "publishNotReadyAddresses": True},
        },
        "spec.publishNotReadyAddresses",
    ),
    (
        "store-read-only",
        changed(one("Deployment"), f"{CONTAINER}/volumeMounts/0/readOnly", REMOVED),
        "spec.template.spec.containers[0].volumeMounts[0]",
    ),
    (
        "store-read-only",
        changed(one("Deployment"), f"{CONTAINER}/volumeMounts/0/readOnly", "true"),
        "spec.template.spec.containers[0].volumeMounts[0]",
    ),
    (
        "pod-restricted",
        changed(one("Deployment"), "spec/template/spec/securityContext", []),
        "spec.template.spec.containers[0].securityContext.runAsNonRoot",
    ),
    *(
        ("pod-restricted", changed(one(kind), f"{CONTAINER}/securityContext/{field}", value), f"{where}.{place}")
        for kind in ("Deployment", "Job")
        for where in ("spec.template.spec.containers[0].securityContext",)
        for field, value, place in (
            ("runAsNonRoot", False, "runAsNonRoot"),
            ("runAsUser", 0, "runAsUser"),
            ("privileged", True, "privileged"),
            ("allowPrivilegeEscalation", True, "allowPrivilegeEscalation"),
            ("readOnlyRootFilesystem", REMOVED, "readOnlyRootFilesystem"),
            ("capabilities/drop", ["NET_RAW"], "capabilities.drop"),
            ("capabilities/add", ["SYS_ADMIN"], "capabilities.add"),
        )
    ),
    ("pod-restricted", changed(one("Job"), "spec/template/spec/hostPID", True), "spec.template.spec.hostPID"),
    (
        "pod-restricted",
        changed(one("Job"), "spec/template/spec/volumes/1", {"name": "node", "hostPath": {"path": "/"}}),
        "spec.template.spec.volumes[1].hostPath",
    ),
    ("resources-requested", model(model="team/own:1"), "spec.resources.requests.cpu"),
    (
        "resources-requested",
        model(model="team/own:1", resources={"limits": {"cpu": "1"}}),
        "spec.resources.requests.memory",
    ),
    (
        "resources-requested",
        changed(one("Deployment"), f"{CONTAINER}/resources/requests/memory", REMOVED),
        "spec.template.spec.containers[0].resources.requests.memory",
    ),
    (
        "requests-within-limits",
        model(resources={"requests": {"memory": "5Gi"}, "limits": {"memory": "4Gi"}}),
        "spec.resources.requests.memory",
    ),
    (
        "requests-within-limits",
        changed(one("Job"), f"{CONTAINER}/resources/requests/memory", "1025Mi"),
        "spec.template.spec.containers[0].resources.requests.memory",
    ),
    ("amounts-possible", model(resources={"requests": {"cpu": "-1"}}), "spec.resources.requests.cpu"),
    ("amounts-possible", model(resources={"requests": {"memory": -1}}), "spec.resources.requests.memory"),
    ("amounts-possible", model(resources={"limits": {"memory": "-1Gi"}}), "spec.resources.limits.memory"),
    ("amounts-possible", model(model="ollaya.dev/team/own:1", cache={"size": "-1Gi"}), "spec.cache.size"),
    ("amounts-possible", model(cache={"size": 0}), "spec.cache.size"),
    (
        "amounts-possible",
        changed(one("Deployment"), f"{CONTAINER}/resources/requests/memory", "-1"),
        "spec.template.spec.containers[0].resources.requests.memory",
    ),
    (
        "pod-restricted",
        changed(
            one("Deployment"),
            "spec/template/metadata/annotations",
            {"container.apparmor.security.beta.kubernetes.io/ollaya": "unconfined"},
        ),
        "spec.template.metadata.annotations.container.apparmor.security.beta.kubernetes.io/ollaya",
    ),
    ("memory-limit-holds-model", sized("3166Mi"), "spec.resources.limits.memory"),
    ("memory-limit-holds-model", sized("3G", "ollaya.dev/library/laya:en"), "spec.resources.limits.memory"),
    ("memory-limit-headroom", sized("3167Mi"), "spec.resources.limits.memory"),
    ("memory-limit-headroom", sized("4Gi"), "spec.resources.limits.memory"),
    ("cache-holds-model", model(model="jevk5:latest", cache={"size": "4Gi"}), "spec.cache.size"),
    ("cache-holds-model", model(model="nli:latest", cache={"size": "1Gi"}), "spec.cache.size"),
    ("cache-headroom", model(cache={"size": "1Gi"}), "spec.cache.size"),
    ("replicas-schedulable", model(replicas=2, scheduling=NEAR_OTHERS), "spec.replicas"),
    ("replicas-schedulable", model(replicas=2, cache={"accessModes": ["ReadWriteOncePod"]}), "spec.replicas"),
    ("replicas-share-node", model(replicas=2), "spec.replicas"),
    ("replicas-share-node", model(replicas=3, cache={"accessModes": ["ReadWriteOnce"]}), "spec.replicas"),
]

PASSING = [
    ("amounts-possible", model(resources={"requests": {"cpu": "0", "memory": "1m"}, "limits": {"cpu": 0}})),
    ("amounts-possible", model(cache={"size": "1"})),
    ("amounts-possible", one("Job")),
    ("decisionmodel-valid", model(replicas=3)),
    ("decisionmodel-valid", {"apiVersion": "example.com/v1", "kind": "Model"}),
    ("fields-known", model(scheduling={"nodeSelector": {"any": "key"}, "tolerations": [{"key": "x"}]})),
    ("fields-known", model(resources={"limits": {"example.com/accelerator": 1}})),
    ("model-registry-allowed", model(model="ollaya.dev/team/own:1")),
    ("model-registry-allowed", one("Deployment")),
    ("registry-uses-tls", model(model="https://ollaya.dev/library/laya:en")),
    ("registry-uses-tls", environment_variable(name="OLLAYA_REGISTRY", value="https://ollaya.dev")),
    ("image-registry-allowed", model(image="ghcr.io/ollaya-dev/other:1")),
    ("image-registry-allowed", one("Deployment")),
    ("image-pinned-by-digest", model(image=PINNED)),
    ("image-pinned-by-digest", model(runtimeVersion="0.12.0")),
    ("custom-image-allowed", one("Job")),
    *(
        (rule, image_volume(reference=runtime_image(DEFAULT_VERSION, "cpu").reference))
        for rule in ("image-registry-allowed", "image-pinned-by-digest", "custom-image-allowed")
    ),
    ("readiness-gate-present", one("Deployment")),
    ("readiness-gate-present", one("Service")),
    # No Service selects the Pods that fill the store.
    ("readiness-gate-present", one("Job")),
    (
        "readiness-gate-present",
        {"kind": "Service", "spec": {"selector": {"app": "other"}, "publishNotReadyAddresses": True}},
    ),
    ("store-read-only", one("Deployment")),
    # The Job fills the store.
    ("store-read-only", one("Job")),
    (
        "store-read-only",
        changed(
            changed(one("Deployment"), f"{CONTAINER}/volumeMounts/0/readOnly", REMOVED),
            "spec/template/spec/volumes/0/persistentVolumeClaim/readOnly",
            True,
        ),
    ),
    ("pod-restricted", one("Deployment")),
    ("pod-restricted", one("Job")),
    ("resources-requested", model()),
    ("resources-requested", model(device="cuda")),
    ("resources-requested", one("Deployment", device="cuda")),
    ("resources-requested", one("Job")),
    ("requests-within-limits", model(resources={"requests": {"memory": "4Gi"}, "limits": {"memory": "4096Mi"}})),
    ("requests-within-limits", one("Job")),
    ("memory-limit-holds-model", sized("3167Mi")),
    ("memory-limit-holds-model", sized("1Gi", device="cuda")),
    ("memory-limit-holds-model", sized("1Gi", "team/own:1")),
    ("memory-limit-headroom", sized("4434Mi")),
    # Too small for the model at all: the other rule says so.
    ("memory-limit-headroom", sized("1Gi")),
    ("cache-holds-model", model(cache={"size": "1Gi"})),
    ("cache-holds-model", model()),
    ("cache-headroom", model(cache={"size": "2Gi"})),
    ("cache-headroom", model(cache={"size": "512Mi"})),
    ("replicas-schedulable", model(replicas=2)),
    ("replicas-schedulable", model(scheduling=NEAR_OTHERS)),
    ("replicas-schedulable", model(replicas=2, scheduling=NEAR_OTHERS, cache={"accessModes": ["ReadWriteMany"]})),
    ("replicas-share-node", model()),
    ("replicas-share-node", model(replicas=2, cache={"accessModes": ["ReadWriteMany"]})),
    # They cannot even share one: the other rule says so.
    ("replicas-share-node", model(replicas=2, scheduling=NEAR_OTHERS)),
]

RELATIONAL_OR_CONDITIONAL = {"disruption-budget-present", "secret-capability-label", "evaluation-required"}


@pytest.mark.parametrize(
    ("rule", "manifest", "where"), FAILING, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_breaks_a_rule_is_found_where_it_is(rule: str, manifest: Any, where: str) -> None:
    findings = found(rule, manifest)
    assert where in [finding.where for finding in findings]
    assert all(finding.message and finding.object.name for finding in findings)


@pytest.mark.parametrize(("rule", "manifest"), PASSING)
def test_what_keeps_a_rule_is_not_found(rule: str, manifest: Any) -> None:
    assert found(rule, manifest) == []


def test_every_rule_has_a_case_that_passes_and_one_that_fails() -> None:
    ids = {rule.id for rule in RULES} - RELATIONAL_OR_CONDITIONAL
    assert {rule for rule, *_ in FAILING} == ids
    assert {rule for rule, _ in PASSING} == ids


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["laya:en", "laya:multilingual", "nli:latest", "gliclass:latest", "jevk5:latest"])
def test_a_model_that_sets_nothing_is_clean_with_all_its_objects(device: str, name: str) -> None:
    assert check([model(model=name, device=device), *objects(device=device, model=name)]) == ()


def test_workloads_of_others_are_nobodys_business() -> None:
    platform = changed(one("Deployment"), "metadata/labels", {"app": "other"})
    platform = changed(platform, "spec/template/metadata/labels", {"app": "other"})
    platform = changed(platform, f"{CONTAINER}/image", "nginx")
    assert check([platform]) == ()


def test_a_label_on_the_template_alone_makes_pods_those_of_a_model() -> None:
    hidden = changed(changed(one("Deployment"), "metadata/labels", {}), f"{CONTAINER}/image", "nginx")
    assert found("image-pinned-by-digest", hidden)


KINDS_WITH_PODS = [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
]
SELECTED = {"decisionmodel.io/name": "laya", "decisionmodel.io/revision": REVISION}
RELABELLED = {"decisionmodel.io/revision": REVISION}


@pytest.mark.parametrize("labels", [SELECTED, RELABELLED], ids=["both labels", "the revision's alone"])
@pytest.mark.parametrize("kind", KINDS_WITH_PODS)
def test_pods_that_a_service_selects_are_judged_whatever_starts_them(kind: str, labels: dict[str, str]) -> None:
    started = workload(kind, labels)
    (missing,) = found("readiness-gate-present", started)
    assert missing.message == "lacks the gate decisionmodel.io/model-ready"
    *pod, _ = missing.path
    container = "/".join(map(str, [*pod, "containers", 0]))
    assert found("store-read-only", changed(started, f"{container}/volumeMounts/0/readOnly", REMOVED))
    assert found("pod-restricted", changed(started, f"{container}/securityContext/privileged", True))
    assert found("custom-image-allowed", changed(started, f"{container}/image", PINNED))


def without(kind: str) -> list[Any]:
    return [each for each in objects() if each["kind"] != kind]


def test_several_serving_pods_need_a_budget() -> None:
    (finding,) = found("disruption-budget-present", *without("PodDisruptionBudget"))
    assert (finding.object.kind, finding.where) == ("Deployment", "spec.replicas")


def test_a_budget_over_other_pods_or_in_another_namespace_is_none() -> None:
    (budget,) = [each for each in objects() if each["kind"] == "PodDisruptionBudget"]
    elsewhere = changed(budget, "metadata/namespace", "team-b")
    assert found("disruption-budget-present", *without("PodDisruptionBudget"), elsewhere)
    of_others = changed(budget, "spec/selector", {"matchLabels": {"app": "other"}})
    assert found("disruption-budget-present", *without("PodDisruptionBudget"), of_others)


def test_a_budget_is_not_asked_for_where_pods_share_a_node() -> None:
    on_one_node = objects(modes=("ReadWriteOnce",))
    assert found("disruption-budget-present", *[each for each in on_one_node if "Budget" not in each["kind"]]) == []


def test_a_budget_is_not_asked_for_where_nothing_serves_or_one_pod_does() -> None:
    assert found("disruption-budget-present", *objects()) == []
    candidate = [each for each in without("PodDisruptionBudget") if each["kind"] != "Service"]
    assert found("disruption-budget-present", *candidate) == []
    assert found("disruption-budget-present", *objects(replicas=1)) == []


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        ({"auth": {"apiKeySecretRef": {"name": "keys", "key": "k"}}}, "decisionmodel.io/api-key"),
        ({"cache": {"downloadTokenSecretRef": {"name": "keys", "key": "k"}}}, "decisionmodel.io/download-token"),
        (
            {
                "rollout": {
                    "evaluation": {
                        "datasetRef": {"secretRef": {"name": "keys", "key": "k"}},
                        "minAccuracy": "0.9",
                    }
                }
            },
            "decisionmodel.io/eval-dataset",
        ),
    ],
)
def test_a_referenced_secret_needs_the_label_of_its_use(spec: Any, label: str) -> None:
    referring = model(**spec)
    (finding,) = found("secret-capability-label", referring, SECRET)
    assert label in finding.message
    for value in (True, "other", ""):
        wrong = changed(SECRET, "metadata/labels", {label: value, "decisionmodel.io/other": "true"})
        assert found("secret-capability-label", referring, wrong)
    for value in ("true", "laya", "other_laya"):
        labelled = changed(SECRET, "metadata/labels", {label: value})
        assert found("secret-capability-label", referring, labelled) == []


def test_secrets_that_are_not_there_or_elsewhere_are_not_judged() -> None:
    referring = model(auth={"apiKeySecretRef": {"name": "keys", "key": "k"}})
    assert found("secret-capability-label", referring) == []
    assert found("secret-capability-label", referring, changed(SECRET, "metadata/namespace", "team-b")) == []


def test_an_evaluation_is_required_in_the_named_environments_only() -> None:
    evaluated = model(
        rollout={"evaluation": {"datasetRef": {"configMapRef": {"name": "d", "key": "k"}}, "minAccuracy": "0.9"}}
    )
    named: dict[str, Any] = {"environments": ["prod", "live"]}
    assert found("evaluation-required", model(), environment="prod") == []
    assert found("evaluation-required", model(), **named) == []
    assert found("evaluation-required", model(), environment="staging", **named) == []
    assert found("evaluation-required", model(), environment="prod", **named)
    assert found("evaluation-required", evaluated, environment="prod", **named) == []


def test_a_misspelt_field_is_told_what_it_resembles() -> None:
    (finding,) = found("fields-known", model(replicsa=2))
    assert finding.message == "there is no such field, but there is replicas"


def test_parameters_change_what_is_allowed() -> None:
    custom = model(image=PINNED)
    assert found("custom-image-allowed", custom, allowed=["registry.example.com/team"]) == []
    assert found("image-registry-allowed", custom, allowed=["registry.example.com/team/"]) == []
    assert found("image-registry-allowed", custom, allowed=[])
    other = model(model="models.example.com:8443/team/laya:en")
    assert found("model-registry-allowed", other, allowed=["models.example.com:8443"]) == []
    assert found("model-registry-allowed", model(), registry="http://models.example.com:8443")
    assert found("memory-limit-headroom", sized("4Gi"), factor=1.2) == []


def test_levels_decide_what_blocks_and_what_runs() -> None:
    custom = model(image=PINNED)
    assert {finding.rule for finding in blocking(check([custom]))} == {"custom-image-allowed", "image-registry-allowed"}
    settings = {"custom-image-allowed": {"level": "advisory"}, "image-registry-allowed": {"level": "disabled"}}
    (finding,) = check([custom], read_configuration({"rules": settings}))
    assert (finding.rule, finding.level) == ("custom-image-allowed", Level.ADVISORY)
    assert blocking([finding]) == ()


def test_a_finding_names_the_object_by_its_place_in_what_was_checked() -> None:
    (finding,) = check([SECRET, model(replicas=0)])
    assert finding.position == 1
    assert str(finding).startswith("DecisionModel team-a/laya: spec.replicas: ")


@pytest.mark.parametrize("image", ["OLLAYA/x", "OLLAYA/x:1", "Docker.io/ollaya/x", "docker.io/ollaya/X", "X"])
def test_a_capital_names_no_place_on_docker_hub(image: str) -> None:
    """`OLLAYA/x` is pulled from a host called OLLAYA, whatever looks up the folder `ollaya`."""
    problems = found("image-registry-allowed", model(image=image), allowed=["docker.io"])
    assert [problem.message.endswith("write it in lower case") for problem in problems] == [True]
    assert found("image-registry-allowed", model(image=image.lower()), allowed=["docker.io"]) == []


def test_a_tag_may_have_capitals() -> None:
    assert found("image-registry-allowed", model(image="ollaya/x:V1-RC"), allowed=["docker.io/ollaya"]) == []
