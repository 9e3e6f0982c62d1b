"""What the platform consists of, by configuration; its rights are compared one by one."""

from typing import Any

import click
import pytest

from api import crd
from components.configuration import ManagerFlags, PlatformConfiguration
from components.platform_manifests import platform_manifests
from reconciler.options import declared, read_options

OPERATOR = "decision-model-operator"
SYSTEM = "decision-model-operator-system"
ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]

CORE_OBJECTS = [
    ("CustomResourceDefinition", None, "decisionmodels.decisionmodel.io"),
    ("Namespace", None, SYSTEM),
    ("ServiceAccount", SYSTEM, f"{OPERATOR}-controller-manager"),
]
CLUSTER_ROLES = [
    ("ClusterRole", None, f"{OPERATOR}-manager-role"),
    ("ClusterRoleBinding", None, f"{OPERATOR}-manager-rolebinding"),
]
LEASE_ROLES = [
    ("Role", SYSTEM, f"{OPERATOR}-leader-election-role"),
    ("RoleBinding", SYSTEM, f"{OPERATOR}-leader-election-rolebinding"),
]
CLAIM = ("PersistentVolumeClaim", SYSTEM, f"{OPERATOR}-state")
DEPLOYMENT = ("Deployment", SYSTEM, f"{OPERATOR}-controller-manager")


def _objects(**configuration: Any) -> list[dict[str, Any]]:
    given = PlatformConfiguration.model_validate({"image": "reconciler:1", **configuration})
    return [dict(manifest) for manifest in platform_manifests(given)]


def _key(manifest: dict[str, Any]) -> tuple[str, str | None, str]:
    return manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]


def _one(kind: str, **configuration: Any) -> dict[str, Any]:
    (found,) = (manifest for manifest in _objects(**configuration) if manifest["kind"] == kind)
    return found


def _pod(**configuration: Any) -> dict[str, Any]:
    spec: dict[str, Any] = _one("Deployment", **configuration)["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("configuration", "objects"),
    [
        ({}, [*CORE_OBJECTS, *CLUSTER_ROLES, *LEASE_ROLES, DEPLOYMENT]),
        ({"state": {"size": "1Gi"}}, [*CORE_OBJECTS, *CLUSTER_ROLES, *LEASE_ROLES, CLAIM, DEPLOYMENT]),
        (
            {"manager": {"watchNamespaces": ["team-a", "team-b"]}},
            [
                *CORE_OBJECTS,
                ("Role", "team-a", f"{OPERATOR}-manager-role"),
                ("RoleBinding", "team-a", f"{OPERATOR}-manager-rolebinding"),
                ("Role", "team-b", f"{OPERATOR}-manager-role"),
                ("RoleBinding", "team-b", f"{OPERATOR}-manager-rolebinding"),
                *LEASE_ROLES,
                DEPLOYMENT,
            ],
        ),
    ],
)
def test_the_platforms_objects(configuration: dict[str, Any], objects: list[tuple[str, str | None, str]]) -> None:
    assert [_key(manifest) for manifest in _objects(**configuration)] == objects


def _permissions(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


EXACT = {
    ("", "configmaps"): ["create", "delete", "get"],
    ("", "secrets"): ["get"],
    ("", "persistentvolumeclaims"): ALL,
    ("", "services"): ALL,
    ("apps", "deployments"): ALL,
    ("batch", "jobs"): ALL,
    ("policy", "poddisruptionbudgets"): ALL,
    ("decisionmodel.io", "decisionmodels"): ALL,
    ("", "pods"): ["get", "list", "watch"],
    ("", "pods/status"): ["get", "patch", "update"],
    ("apps", "replicasets"): ["get", "list", "watch"],
    ("", "events"): ["create", "patch"],
    ("events.k8s.io", "events"): ["create", "patch"],
    ("decisionmodel.io", "decisionmodels/status"): ["get", "patch", "update"],
    ("decisionmodel.io", "decisionmodels/finalizers"): ["update"],
}


@pytest.mark.parametrize(
    ("kind", "configuration"), [("ClusterRole", {}), ("Role", {"manager": {"watchNamespaces": ["team-a"]}})]
)
def test_the_reconcilers_rights_are_these_and_no_others(kind: str, configuration: dict[str, Any]) -> None:
    (granted,) = (
        manifest["rules"]
        for manifest in _objects(**configuration)
        if _key(manifest)[0] == kind and _key(manifest)[2] == f"{OPERATOR}-manager-role"
    )

    assert _permissions(granted) == {(*target, verb) for target, verbs in EXACT.items() for verb in verbs}


def test_leases_are_granted_at_home_only() -> None:
    (granted,) = (manifest["rules"] for manifest in _objects() if _key(manifest) == LEASE_ROLES[0])

    assert _permissions(granted) == {("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}


def test_every_role_is_bound_to_the_reconcilers_account_and_nobody_else() -> None:
    bindings = [manifest for manifest in _objects() if manifest["kind"].endswith("Binding")]

    assert len(bindings) == 2
    for manifest in bindings:
        assert manifest["roleRef"]["kind"] == manifest["kind"].removesuffix("Binding")
        assert manifest["roleRef"]["name"] == manifest["metadata"]["name"].removesuffix("binding")
        assert manifest["subjects"] == [
            {"kind": "ServiceAccount", "namespace": SYSTEM, "name": f"{OPERATOR}-controller-manager"}
        ]


def test_the_definition_is_the_committed_one() -> None:
    assert _one("CustomResourceDefinition")["spec"] == crd.load()["spec"]


def test_the_namespace_admits_restricted_pods_only() -> None:
    labels = _one("Namespace")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_deployment_is_found_by_its_label() -> None:
    deployment = _one("Deployment", replicas=2, manager={"leaderElect": True})

    assert deployment["metadata"]["labels"]["control-plane"] == "controller-manager"
    assert deployment["spec"]["replicas"] == 2
    assert (
        deployment["spec"]["selector"]["matchLabels"].items()
        <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_pod_keeps_to_the_restricted_profile() -> None:
    pod = _pod()
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_the_pod_is_probed_and_given_time_to_stop() -> None:
    pod = _pod()
    (container,) = pod["containers"]

    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert container["ports"] == [{"name": "health", "containerPort": 8081, "protocol": "TCP"}]
    assert "--health-probe-bind-address=:8081" in container["args"]
    assert pod["terminationGracePeriodSeconds"] == 60


def test_everything_the_reconciler_writes_to_is_a_volume() -> None:
    pod = _pod()
    (container,) = pod["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    arguments = dict(argument.partition("=")[::2] for argument in container["args"])

    assert {
        arguments["--state-backend"].removeprefix("file://"),
        arguments["--work-directory"],
        environment["HOME"],
        f"{arguments['--pulumi-home']}/workspaces",
        "/tmp",
    } == mounted
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("state", "volume", "strategy"),
    [
        ({}, {"name": "state", "emptyDir": {}}, "RollingUpdate"),
        (
            {"size": "1Gi"},
            {"name": "state", "persistentVolumeClaim": {"claimName": f"{OPERATOR}-state"}},
            "Recreate",
        ),
    ],
)
def test_where_the_state_lives(state: dict[str, Any], volume: dict[str, Any], strategy: str) -> None:
    assert volume in _pod(state=state)["volumes"]
    assert _one("Deployment", state=state)["spec"]["strategy"] == {"type": strategy}


def test_the_state_claim() -> None:
    claim = _one("PersistentVolumeClaim", state={"size": "2Gi", "storageClassName": "fast"})

    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
    }
    assert "storageClassName" not in _one("PersistentVolumeClaim", state={"size": 1024})["spec"]


def test_the_container_runs_what_is_configured() -> None:
    (container,) = _pod(
        image="registry/reconciler:2",
        manager={"ollayaRegistry": "https://mirror"},
        environment={"HTTPS_PROXY": "http://proxy:3128", "USER": "someone"},
        resources={"limits": {"memory": "1Gi"}},
    )["containers"]
    names = [entry["name"] for entry in container["env"]]

    assert container["image"] == "registry/reconciler:2"
    assert "--ollaya-registry=https://mirror" in container["args"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert len(names) == len(set(names))


def test_the_reconciler_understands_every_argument() -> None:
    """Every flag is set here, so that none can be passed which the command line would refuse at start."""
    manager = {
        "leaderElect": True,
        "allowedRegistries": ["mirror"],
        "allowInsecureRegistries": True,
        "allowImageOverride": True,
        "allowUnpinnedRuntimeImages": True,
        "ollayaRegistry": "https://mirror",
        "ollayaHfEndpoint": "https://weights",
        "maxConcurrentReconciles": 8,
        "runtimeVersionPolicy": "FollowOperator",
        "watchNamespaces": ["team-a"],
        "metricsBindAddress": ":8080",
        "stackWorkers": 4,
    }
    assert {*manager} == {field.alias for field in ManagerFlags.model_fields.values()}
    (container,) = _pod(manager=manager)["containers"]
    command = declared(click.command("manager")(lambda **flags: read_options(flags, {})))

    understood = command.main(container["args"], standalone_mode=False)

    assert understood.leader_elect is True
    assert understood.stack_workers == 4
    assert understood.namespaces == ("team-a",)
    assert understood.backend_url == "file:///var/lib/decisionmodel/state"


def test_every_object_is_applied_under_one_fixed_name() -> None:
    for manifest in _objects(state={"size": "1Gi"}):
        assert manifest["metadata"]["annotations"]["pulumi.com/patchFieldManager"] == "decisionmodel-platform"
