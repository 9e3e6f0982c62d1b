"""An environment's configuration is read whole: wrong keys are named, and what is not set keeps its default."""

from typing import Any

import pytest

from components.configuration import ConfigurationError, PlatformConfiguration, read_configuration

IMAGE = {"decisionmodel:image": "reconciler:1"}


def _read(**values: Any) -> PlatformConfiguration:
    return read_configuration("decisionmodel", IMAGE | {f"decisionmodel:{key}": value for key, value in values.items()})


def test_an_image_is_all_it_takes() -> None:
    configuration = _read()

    assert configuration.image == "reconciler:1"
    assert configuration.replicas == 1
    assert configuration.manager.arguments() == ["--stack-workers=2"]
    assert configuration.state.size is None
    assert configuration.models is None


def test_values_arrive_as_the_engine_hands_them_over() -> None:
    configuration = _read(
        replicas="2",
        manager='{"leaderElect": true, "allowedRegistries": ["ollaya.dev", "mirror:5000"]}',
        resources='{"requests": {"cpu": 1}}',
        environment='{"OLLAYA_REGISTRY": "https://mirror"}',
        state='{"size": "2Gi", "storageClassName": "fast"}',
        models="shared",
    )

    assert configuration.replicas == 2
    assert configuration.manager.allowed_registries == ("ollaya.dev", "mirror:5000")
    assert configuration.resources.requests == {"cpu": 1}
    assert configuration.environment == {"OLLAYA_REGISTRY": "https://mirror"}
    assert configuration.state.size == "2Gi"
    assert configuration.state.storage_class_name == "fast"
    assert configuration.models == "shared"


def test_keys_of_others_are_left_to_them() -> None:
    read_configuration("decisionmodel", {**IMAGE, "kubernetes:context": "kind-dev", "pulumi:tags": "{}"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": "2"}, "decisionmodel:replica: there is no such key"),
        ({"image": ""}, "decisionmodel:image: String should have at least 1 character"),
        ({"replicas": "many"}, "decisionmodel:replicas: Input should be a valid integer"),
        ({"replicas": "0"}, "decisionmodel:replicas: Input should be greater than or equal to 1"),
        ({"replicas": "2"}, "replicas: more than one needs manager.leaderElect"),
        ({"manager": "leader"}, "decisionmodel:manager: expected an object or a list, got 'leader'"),
        ({"manager": '{"leaderElection": true}'}, "decisionmodel:manager.leaderElection: there is no such key"),
        ({"manager": '{"stackWorkers": 0}'}, "decisionmodel:manager.stackWorkers: Input should be"),
        (
            {"manager": '{"runtimeVersionPolicy": "Newest"}'},
            "decisionmodel:manager.runtimeVersionPolicy: Input should be",
        ),
        ({"manager": '{"watchNamespaces": ["a", ""]}'}, "watchNamespaces: '' is no namespace's name"),
        ({"resources": '{"limit": {}}'}, "decisionmodel:resources.limit: there is no such key"),
        ({"resources": '{"limits": {"memory": "2 Gi"}}'}, "decisionmodel:resources.limits.memory"),
        ({"state": '{"size": "large"}'}, "decisionmodel:state.size"),
        ({"environment": '{"A": 1}'}, "decisionmodel:environment.A: Input should be a valid string"),
    ],
)
def test_what_cannot_be_used_is_named(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        _read(**values)

    assert message in str(refusal.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_configuration("decisionmodel", {"decisionmodel:replicas": "0", "decisionmodel:colour": "blue"})

    assert sorted(line.split(": ")[0] for line in str(refusal.value).splitlines()) == [
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
        "metricsBindAddress": ":8443",
        "stackWorkers": 4,
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
        "--runtime-version-policy=FollowOperator",
        "--watch-namespaces=team-a,team-b",
        "--metrics-bind-address=:8443",
        "--stack-workers=4",
    ]
    assert _read(manager={"leaderElect": False, "allowedRegistries": []}).manager.arguments() == ["--stack-workers=2"]
