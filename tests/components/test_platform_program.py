"""The whole program of an environment, run against a mocked engine."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi import RunError
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, set_all_config, set_mocks

from tests.components.mocked import run_mocked

ROOT = Path(__file__).parents[2]
UNAWAITED = {"decisionmodel:waitForModels": '{"enabled": false}'}
IMAGE = {"decisionmodel:image": "reconciler:1", **UNAWAITED}


class Engine(Mocks):
    """Keeps what is declared; every resource is what it was asked to be."""

    def __init__(self) -> None:
        self.declared: list[MockResourceArgs] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.declared.append(args)
        return f"{args.name}-id", args.inputs

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        raise AssertionError(f"the program asks the engine for {args.token}")


def _run(stack: str, values: dict[str, str]) -> list[MockResourceArgs]:
    """Run the program as the engine would, in a context of its own, and return what it declared."""
    engine = Engine()
    program = runpy.run_path(str(ROOT / "__main__.py"), run_name="program")

    def mock() -> None:
        set_mocks(engine, project="decisionmodel", stack=stack)
        set_all_config(values)

    run_mocked(mock, lambda: program["declare_environment"]("decisionmodel", stack))
    return engine.declared


def test_the_platform_and_its_models_are_declared() -> None:
    declared = [resource.typ for resource in _run("dev", IMAGE)]

    assert sorted(declared) == [
        "decisionmodel:index:Environment",
        "decisionmodel:index:Platform",
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:Service",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:decisionmodel.io/v1alpha1:DecisionModel",
        *["kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"] * 6,
        *["kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"] * 2,
        "kubernetes:rbac.authorization.k8s.io/v1:Role",
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
        "pulumi:providers:kubernetes",
    ]


def test_objects_reach_the_engine_as_they_were_rendered() -> None:
    declared = {resource.typ: resource for resource in _run("dev", IMAGE)}

    model = declared["kubernetes:decisionmodel.io/v1alpha1:DecisionModel"]
    assert model.name == "DecisionModel/default/support-router"
    assert model.inputs["spec"]["model"] == "laya:en"
    account = declared["kubernetes:core/v1:ServiceAccount"]
    assert account.inputs["automountServiceAccountToken"] is False
    definition = declared["kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"]
    schema = definition.inputs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["x-kubernetes-validations"]


def test_the_environment_is_one_cluster_for_good() -> None:
    (provider,) = (resource for resource in _run("dev", IMAGE) if resource.typ == "pulumi:providers:kubernetes")

    assert provider.inputs["clusterIdentifier"] == "decisionmodel-dev"


def test_another_directory_of_models_can_be_named() -> None:
    declared = _run("staging", {**IMAGE, "decisionmodel:models": "dev"})

    assert "DecisionModel/default/support-router" in {resource.name for resource in declared}


def test_nothing_is_declared_when_the_configuration_is_wrong() -> None:
    with pytest.raises(RunError, match="decisionmodel:colour: there is no such key"):
        _run("dev", {**IMAGE, "decisionmodel:colour": "blue"})


def test_nothing_is_declared_when_there_are_no_models_to_read() -> None:
    with pytest.raises(RunError, match="nowhere: there is no such directory of models"):
        _run("dev", {**IMAGE, "decisionmodel:models": "nowhere"})


def test_the_committed_environments_can_be_declared() -> None:
    """Their files are read as the CLI reads them: structured values become JSON texts. Nobody waits for the models."""
    for file in sorted((ROOT / "stacks").glob("Pulumi.*.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}

        assert _run(file.name.split(".")[1], texts | UNAWAITED)
