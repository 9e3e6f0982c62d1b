"""An environment's configuration is read whole: wrong keys are named, and what is not set keeps its default."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.configuration import (
    ConfigurationError,
    MetricsEndpoint,
    PlatformConfiguration,
    read_configuration,
)

STACKS = Path(__file__).parents[2] / "stacks"
IMAGE = {"decisionmodel:image": "reconciler:1"}


def _read(**values: Any) -> PlatformConfiguration:
    return read_configuration(
        "decisionmodel", "dev", IMAGE | {f"decisionmodel:{key}": value for key, value in values.items()}
    )


def test_an_image_is_all_it_takes() -> None:
    configuration = _read()

    assert configuration.image == "reconciler:1"
    assert configuration.replicas == 1
    assert configuration.manager.arguments() == ["--leader-elect", "--stack-workers=2"]
    assert configuration.state.size is None
    assert configuration.models is None


def test_values_arrive_as_the_engine_hands_them_over() -> None:
    configuration = _read(
        replicas="1",
        manager='{"leaderElect": true, "allowedRegistries": ["ollaya.dev", "mirror:5000"]}',
        resources='{"requests": {"cpu": 1}}',
        environment='{"OLLAYA_REGISTRY": "https://mirror"}',
        state='{"size": "2Gi", "storageClassName": "fast"}',
        models="shared",
    )

    assert configuration.replicas == 1
    assert configuration.manager.allowed_registries == ("ollaya.dev", "mirror:5000")
    assert configuration.resources.requests == {"cpu": 1}
    assert configuration.environment == {"OLLAYA_REGISTRY": "https://mirror"}
    assert configuration.state.size == "2Gi"
    assert configuration.state.storage_class_name == "fast"
    assert configuration.models == "shared"


def test_keys_of_others_are_left_to_them() -> None:
    read_configuration("decisionmodel", "dev", {**IMAGE, "kubernetes:context": "kind-dev", "pulumi:tags": "{}"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": "2"}, "decisionmodel:replica: there is no such key"),
        ({"image": ""}, "decisionmodel:image: String should have at least 1 character"),
        ({"replicas": "many"}, "decisionmodel:replicas: Input should be a valid integer"),
        ({"replicas": "0"}, "decisionmodel:replicas: Input should be greater than or equal to 1"),
        (
            {"replicas": "2", "manager": {"leaderElect": False}},
            "decisionmodel:replicas: more than one needs manager.leaderElect",
        ),
        (
            {"replicas": "2", "manager": {"leaderElect": True}, "state": {"size": "1Gi"}},
            "decisionmodel:replicas: more than one needs state.s3",
        ),
        ({"manager": "leader"}, "decisionmodel:manager: expected an object or a list, got 'leader'"),
        ({"manager": '{"leaderElection": true}'}, "decisionmodel:manager.leaderElection: there is no such key"),
        ({"manager": '{"stackWorkers": 0}'}, "decisionmodel:manager.stackWorkers: Input should be"),
        (
            {"manager": '{"runtimeVersionPolicy": "Newest"}'},
            "decisionmodel:manager.runtimeVersionPolicy: Input should be",
        ),
        ({"manager": '{"watchNamespaces": ["a", ""]}'}, "decisionmodel:manager.watchNamespaces.1: String should match"),
        ({"manager": '{"watchNamespaces": ["a\\n"]}'}, "decisionmodel:manager.watchNamespaces.0: String should match"),
        ({"manager": '{"metricsBindAddress": "8080"}'}, "manager.metricsBindAddress: '8080' is no address with a port"),
        (
            {"manager": {"metricsBindAddress": ":8080"}, "metrics": {"secure": True}},
            "decisionmodel:manager.metricsBindAddress: metrics says the same",
        ),
        ({"metrics": {"bindAddress": ":0"}}, "decisionmodel:metrics.bindAddress: ':0' is no address"),
        ({"metrics": {"bindAddress": ":65536"}}, "decisionmodel:metrics.bindAddress: ':65536' is no address"),
        (
            {"metrics": {"enabled": False, "serviceMonitor": {"enabled": True}}},
            "decisionmodel:metrics.serviceMonitor: there is nothing to scrape",
        ),
        (
            {
                "metrics": {
                    "secure": False,
                    "certificateSecret": "certificate",
                    "serviceMonitor": {"enabled": True, "tlsVerify": True},
                }
            },
            "decisionmodel:metrics: serviceMonitor.tlsVerify: needs secure",
        ),
        (
            {"metrics": {"serviceMonitor": {"enabled": True, "tlsVerify": True}}},
            "decisionmodel:metrics: serviceMonitor.tlsVerify: needs certificateSecret",
        ),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "decisionmodel:metrics.serviceMonitor.interval"),
        ({"prometheusRule": {"windows": {"degraded": "10"}}}, "decisionmodel:prometheusRule.windows.degraded"),
        ({"prometheusRule": {"thresholds": {"maxEce": 2}}}, "decisionmodel:prometheusRule.thresholds.maxEce"),
        ({"prometheusRule": {"runbookUrl": "wiki"}}, "decisionmodel:prometheusRule.runbookUrl"),
        ({"networkPolicies": {"enabled": True}}, "decisionmodel:networkPolicies.namespaces: is needed"),
        ({"networkPolicies": {"egressPorts": [0]}}, "decisionmodel:networkPolicies.egressPorts.0"),
        ({"proxy": {"existingSecret": "Not A Name"}}, "decisionmodel:proxy.existingSecret: String should match"),
        ({"state": {"s3": {"bucket": "b"}}}, "decisionmodel:state.s3.bucket: String should match"),
        ({"state": {"s3": {"bucket": "bucket", "endpoint": "http://u:p@h"}}}, "decisionmodel:state.s3.endpoint"),
        ({"state": {"size": "1Gi", "s3": {"bucket": "bucket"}}}, "decisionmodel:state: size and storageClassName are"),
        ({"state": {"storageClassName": "fast"}}, "decisionmodel:state: storageClassName means nothing without size"),
        ({"affinity": {"nodeAffinity": {"required": {}}}}, "affinity: there is no such field: nodeAffinity.required"),
        ({"tolerations": [{"key": "gpu", "effects": "x"}]}, "tolerations.0: there is no such field: effects"),
        ({"tolerations": "[{}"}, "decisionmodel:tolerations: expected an object or a list"),
        ({"waitForModels": {"timeoutSeconds": 0}}, "decisionmodel:waitForModels.timeoutSeconds"),
        ({"retain": {"model": False}}, "decisionmodel:retain.model: there is no such key"),
        ({"resources": '{"limit": {}}'}, "decisionmodel:resources.limit: there is no such key"),
        ({"resources": '{"limits": {"memory": "2 Gi"}}'}, "decisionmodel:resources.limits.memory"),
        ({"state": '{"size": "large"}'}, "decisionmodel:state.size"),
        ({"environment": '{"A": 1}'}, "decisionmodel:environment.A: Input should be a valid string"),
    ],
)
def test_what_cannot_be_used_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        _read(**values)

    assert message in str(refusal.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_configuration("decisionmodel", "dev", {"decisionmodel:replicas": "0", "decisionmodel:colour": "blue"})

    heading, *lines = str(refusal.value).splitlines()
    assert heading == "stacks/Pulumi.dev.yaml cannot be used:"
    assert sorted(line.strip().split(": ")[0] for line in lines) == [
        "decisionmodel:colour",
        "decisionmodel:image",
        "decisionmodel:replicas",
    ]


def test_flags_are_passed_only_when_they_are_set() -> None:
    manager = {
        "leaderElect": True,
        "allowedRegistries": ["a", "b:5000"],
        "allowInsecureRegistries": True,
        "allowImageOverride": True,
        "allowUnpinnedRuntimeImages": True,
        "ollayaRegistry": "https://mirror",
        "ollayaHfEndpoint": "https://weights",
        "maxConcurrentReconciles": 8,
        "runtimeVersionPolicy": "FollowOperator",
        "watchNamespaces": ["team-a", "team-b"],
        "maxConcurrentRollouts": 2,
        "metricsBindAddress": ":8443",
        "stackWorkers": 4,
        "stackDeadline": 90,
        "zapLogLevel": "debug",
        "zapEncoder": "console",
    }

    assert _read(manager=manager).manager.arguments() == [
        "--leader-elect",
        "--allowed-registries=a,b:5000",
        "--allow-insecure-registries",
        "--allow-image-override",
        "--allow-unpinned-runtime-images",
        "--ollaya-registry=https://mirror",
        "--ollaya-hf-endpoint=https://weights",
        "--max-concurrent-reconciles=8",
        "--max-concurrent-rollouts=2",
        "--runtime-version-policy=FollowOperator",
        "--watch-namespaces=team-a,team-b",
        "--stack-workers=4",
        "--stack-deadline=90",
        "--zap-log-level=debug",
        "--zap-encoder=console",
    ]
    assert _read(manager={"leaderElect": False, "allowedRegistries": []}).manager.arguments() == ["--stack-workers=2"]


@pytest.mark.parametrize("key", ["httpProxy", "httpsProxy"])
def test_a_proxy_with_credentials_is_refused_without_repeating_them(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"name that in proxy\.existingSecret") as refusal:
        _read(proxy={key: "http://user:hunter2@proxy:3128"})

    assert "hunter2" not in str(refusal.value)


def test_placement_is_read_in_kubernetes_own_shape() -> None:
    configuration = _read(
        tolerations='[{"key": "gpu", "operator": "Exists", "value": null}]',
        affinity='{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}',
    )

    assert [toleration.dump() for toleration in configuration.tolerations] == [{"key": "gpu", "operator": "Exists"}]
    assert configuration.affinity.node_affinity is not None


def test_metrics_are_secure_unless_plain_ones_are_asked_for() -> None:
    assert _read().metrics_endpoint == MetricsEndpoint(":8443", secure=True)
    assert _read(manager={"metricsBindAddress": "[::1]:8080"}).metrics_endpoint == MetricsEndpoint(
        "[::1]:8080", secure=False
    )
    assert _read(metrics={"enabled": False}).metrics_endpoint is None


@pytest.mark.parametrize("file", sorted(STACKS.glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_the_committed_environments_are_configured(file: Path) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]

    read_configuration("decisionmodel", file.name.split(".")[1], values)


def test_a_namespace_named_twice_counts_once() -> None:
    configuration = _read(
        manager={"watchNamespaces": ["b", "a", "b"]}, networkPolicies={"enabled": True, "namespaces": ["c", "c"]}
    )

    assert configuration.manager.watch_namespaces == ("b", "a")
    assert configuration.policed_namespaces == ("c",)
