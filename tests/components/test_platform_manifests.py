"""What the platform consists of by default; its rights are compared one by one."""

from typing import Any

import click
import pytest

from api import crd
from components.configuration import ManagerFlags
from reconciler.options import declared, read_options
from tests.components.platforms import OPERATOR, SYSTEM, object_key, one, pod, rendered

ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]

MANAGER_ROLE = ("ClusterRole", None, f"{OPERATOR}-manager-role")
LEASE_ROLE = ("Role", SYSTEM, f"{OPERATOR}-leader-election-role")
REVIEW_ROLE = ("ClusterRole", None, f"{OPERATOR}-metrics-auth-role")


def test_the_platforms_objects() -> None:
    assert [object_key(manifest) for manifest in rendered()] == [
        ("CustomResourceDefinition", None, "decisionmodels.decisionmodel.io"),
        ("Namespace", None, SYSTEM),
        ("ServiceAccount", SYSTEM, f"{OPERATOR}-controller-manager"),
        MANAGER_ROLE,
        ("ClusterRoleBinding", None, f"{OPERATOR}-manager-rolebinding"),
        LEASE_ROLE,
        ("RoleBinding", SYSTEM, f"{OPERATOR}-leader-election-rolebinding"),
        ("ClusterRole", None, f"{OPERATOR}-decisionmodels-admin-role"),
        ("ClusterRole", None, f"{OPERATOR}-decisionmodels-editor-role"),
        ("ClusterRole", None, f"{OPERATOR}-decisionmodels-viewer-role"),
        REVIEW_ROLE,
        ("ClusterRoleBinding", None, f"{OPERATOR}-metrics-auth-rolebinding"),
        ("ClusterRole", None, f"{OPERATOR}-metrics-reader"),
        ("Service", SYSTEM, f"{OPERATOR}-controller-manager-metrics-service"),
        ("NetworkPolicy", SYSTEM, f"{OPERATOR}-manager"),
        ("Deployment", SYSTEM, f"{OPERATOR}-controller-manager"),
    ]


def _permissions(manifest: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _bound_permissions(**configuration: Any) -> set[tuple[str | None, str, str, str]]:
    """What the reconciler's account may do, by namespace (None: everywhere), group, resource and verb."""
    objects = {object_key(manifest): manifest for manifest in rendered(**configuration)}
    allowed = set()
    for (kind, namespace, _), binding in objects.items():
        if kind.endswith("Binding"):
            reference = binding["roleRef"]
            role = objects[reference["kind"], namespace, reference["name"]]
            allowed |= {(namespace, *permission) for permission in _permissions(role)}
    return allowed


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
    ("", "events"): ["create", "list", "patch"],
    ("events.k8s.io", "events"): ["create", "patch"],
    ("decisionmodel.io", "decisionmodels/status"): ["get", "patch", "update"],
    ("decisionmodel.io", "decisionmodels/finalizers"): ["update"],
}
LEASES = {("coordination.k8s.io", "leases"): ["create", "get", "update"]}
REVIEWS = {
    ("authentication.k8s.io", "tokenreviews"): ["create"],
    ("authorization.k8s.io", "subjectaccessreviews"): ["create"],
}


def _at(namespace: str | None, allowed: dict[tuple[str, str], list[str]]) -> set[tuple[str | None, str, str, str]]:
    return {(namespace, *target, verb) for target, verbs in allowed.items() for verb in verbs}


@pytest.mark.parametrize(
    ("configuration", "allowed"),
    [
        ({}, _at(None, EXACT) | _at(SYSTEM, LEASES) | _at(None, REVIEWS)),
        ({"metrics": {"enabled": False}}, _at(None, EXACT) | _at(SYSTEM, LEASES)),
        ({"metrics": {"secure": False}}, _at(None, EXACT) | _at(SYSTEM, LEASES)),
        (
            {"manager": {"watchNamespaces": ["team-a", "team-b"]}},
            _at("team-a", EXACT) | _at("team-b", EXACT) | _at(SYSTEM, LEASES) | _at(None, REVIEWS),
        ),
    ],
)
def test_the_reconcilers_rights_are_these_and_no_others(
    configuration: dict[str, Any], allowed: set[tuple[str | None, str, str, str]]
) -> None:
    assert _bound_permissions(**configuration) == allowed


def test_rights_are_spelt_out() -> None:
    for manifest in rendered():
        for rule in manifest.get("rules", ()):
            assert "*" not in [*rule["verbs"], *rule.get("resources", ()), *rule.get("apiGroups", ())]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_every_binding_is_for_the_reconcilers_account_and_nobody_else() -> None:
    bindings = [manifest for manifest in rendered() if manifest["kind"].endswith("Binding")]

    assert len(bindings) == 3
    for manifest in bindings:
        assert manifest["roleRef"]["kind"] == manifest["kind"].removesuffix("Binding")
        assert manifest["roleRef"]["name"] == manifest["metadata"]["name"].removesuffix("binding")
        assert manifest["subjects"] == [
            {"kind": "ServiceAccount", "namespace": SYSTEM, "name": f"{OPERATOR}-controller-manager"}
        ]


@pytest.mark.parametrize(
    ("user", "aggregate", "verbs", "scaling"),
    [
        ("admin", "admin", [*ALL, "deletecollection"], ["get", "patch", "update"]),
        ("editor", "edit", ALL, ["get", "patch", "update"]),
        ("viewer", "view", ["get", "list", "watch"], ["get"]),
    ],
)
def test_the_clusters_own_roles_extend_to_decision_models(
    user: str, aggregate: str, verbs: list[str], scaling: list[str]
) -> None:
    role = one("ClusterRole", name=f"{OPERATOR}-decisionmodels-{user}-role")

    assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{aggregate}"] == "true"
    assert _permissions(role) == {("decisionmodel.io", "decisionmodels", verb) for verb in verbs} | {
        ("decisionmodel.io", "decisionmodels/status", "get"),
        *(("decisionmodel.io", "decisionmodels/scale", verb) for verb in scaling),
    }


def test_a_scraper_needs_no_more_than_the_metrics() -> None:
    assert one("ClusterRole", name=f"{OPERATOR}-metrics-reader")["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


def test_the_definition_is_the_committed_one() -> None:
    assert one("CustomResourceDefinition")["spec"] == crd.load()["spec"]


def test_the_namespace_admits_restricted_pods_only() -> None:
    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_deployment_is_found_by_its_label() -> None:
    deployment = one("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert deployment["metadata"]["labels"]["control-plane"] == "controller-manager"
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert one("Service")["spec"]["selector"].items() <= labels.items()


def test_the_pod_keeps_to_the_restricted_profile() -> None:
    spec = pod()
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


def test_the_token_is_mounted_by_hand_and_ends_within_the_hour() -> None:
    spec = pod()
    (container,) = spec["containers"]
    (token,) = (volume for volume in spec["volumes"] if volume["name"] == "token")
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "token")

    assert spec["automountServiceAccountToken"] is False
    assert one("ServiceAccount")["automountServiceAccountToken"] is False
    assert mount == {
        "name": "token",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": True,
    }
    assert token["projected"]["sources"][0] == {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    assert [*token["projected"]["sources"][1]] == ["configMap"]


def test_the_pod_is_probed_and_given_time_to_stop() -> None:
    spec = pod()
    (container,) = spec["containers"]

    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert {"name": "health", "containerPort": 8081, "protocol": "TCP"} in container["ports"]
    assert "--health-probe-bind-address=:8081" in container["args"]
    assert spec["terminationGracePeriodSeconds"] == 60


def test_everything_the_reconciler_writes_to_is_a_volume() -> None:
    spec = pod()
    (container,) = spec["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    arguments = dict(argument.partition("=")[::2] for argument in container["args"])

    assert {
        arguments["--state-backend"].removeprefix("file://"),
        arguments["--work-directory"],
        environment["HOME"],
        f"{arguments['--pulumi-home']}/workspaces",
        "/tmp",
    } == mounted
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


def test_names_of_variables_are_set_once() -> None:
    variables = pod(
        environment={"HTTPS_PROXY": "http://proxy:3128", "USER": "someone", "POD_NAME": "another"},
        proxy={"httpsProxy": "http://other:3128"},
    )["containers"][0]["env"]

    assert len(variables) == len({entry["name"] for entry in variables})
    assert {"name": "HTTPS_PROXY", "value": "http://other:3128"} in variables
    assert {"name": "USER", "value": "someone"} in variables
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in variables


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
        "maxConcurrentRollouts": 2,
        "runtimeVersionPolicy": "FollowOperator",
        "watchNamespaces": ["team-a"],
        "metricsBindAddress": ":8080",
        "stackWorkers": 4,
        "stackDeadline": 90,
        "zapLogLevel": "debug",
        "zapEncoder": "console",
    }
    assert {*manager} == {field.alias for field in ManagerFlags.model_fields.values()}
    (container,) = pod(manager=manager)["containers"]

    understood = _understood(container["args"])

    assert understood.leader_elect is True
    assert understood.stack_workers == 4
    assert understood.namespaces == ("team-a",)
    assert understood.backend_url == "file:///var/lib/decisionmodel/state"


@pytest.mark.parametrize("metrics", [{}, {"enabled": False}, {"secure": False}, {"certificateSecret": "tls"}])
def test_the_reconciler_understands_how_metrics_are_served(metrics: dict[str, Any]) -> None:
    (container,) = pod(metrics=metrics)["containers"]

    assert (_understood(container["args"]).metrics is None) == (metrics.get("enabled") is False)


def _understood(arguments: list[str]) -> Any:
    command = declared(click.command("manager")(lambda **flags: read_options(flags, {})))
    return command.main(arguments, standalone_mode=False)
