"""The whole program of an environment, run against a mocked engine."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi import RunError
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, set_all_config, set_mocks
from pulumi.runtime.mocks import MockMonitor

from components.configuration import Retain
from components.platform.component import kept_kinds
from tests.components.mocked import run_mocked
from tests.fakes.apiserver import FakeApiServer

ROOT = Path(__file__).parents[2]
UNAWAITED = {"decisionmodel:waitForModels": '{"enabled": false}'}
IMAGE = {"decisionmodel:image": "reconciler:1", **UNAWAITED}
STATE = {"decisionmodel:state": '{"size": "1Gi"}'}


class Engine(Mocks):
    """Keeps what is declared; every resource is what it was asked to be."""

    def __init__(self) -> None:
        self.declared: list[MockResourceArgs] = []
        self.kept: set[str] = set()

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.declared.append(args)
        return f"{args.name}-id", args.inputs

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        raise AssertionError(f"the program asks the engine for {args.token}")


class Monitor(MockMonitor):
    """Notes what mocks are not told."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.engine = engine

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        if request.retainOnDelete:
            self.engine.kept.add(request.name)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK leaves it unannotated


def _run(
    stack: str, values: dict[str, str], *, preview: bool = False, engine: Engine | None = None
) -> list[MockResourceArgs]:
    """Run the program as the engine would, in a context of its own, and return what it declared."""
    engine = engine or Engine()
    program = runpy.run_path(str(ROOT / "__main__.py"), run_name="program")

    def mock() -> None:
        set_mocks(engine, project="decisionmodel", stack=stack, preview=preview, monitor=Monitor(engine))
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
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
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


def _annotations(resource: MockResourceArgs) -> dict[str, str]:
    annotations: dict[str, str] = resource.inputs["metadata"]["annotations"]
    return annotations


def test_every_object_is_applied_under_one_fixed_name() -> None:
    objects = [resource for resource in _run("dev", IMAGE | STATE) if "metadata" in resource.inputs]

    assert len(objects) > 10
    for resource in objects:
        assert _annotations(resource)["pulumi.com/patchFieldManager"] == "decisionmodel-platform"


def test_only_the_platforms_own_objects_are_taken_from_other_managers() -> None:
    objects = [resource for resource in _run("dev", IMAGE | STATE) if "metadata" in resource.inputs]
    forced = {each.name for each in objects if _annotations(each).get("pulumi.com/patchForce") == "true"}

    assert {each.name for each in objects} - forced == {
        each.name for each in objects if each.name.startswith("DecisionModel/")
    }


def test_every_update_looks_at_the_cluster_first() -> None:
    """The engine compares with its state alone: what was scaled to 0 by hand would stay there, without a word."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))

    assert project["options"] == {"refresh": "always"}


def test_the_engine_waits_for_nothing_that_needs_a_pod_which_comes_later() -> None:
    unawaited = {
        resource.typ.rpartition(":")[2]
        for resource in _run("dev", IMAGE | STATE)
        if "metadata" in resource.inputs and "pulumi.com/skipAwait" in _annotations(resource)
    }

    assert unawaited == {"PersistentVolumeClaim", "Service"}


@pytest.mark.parametrize(
    ("retain", "declared", "kept"),
    [
        ({}, set(), {"CustomResourceDefinition", "DecisionModel"}),
        (
            {},
            {"PersistentVolumeClaim"},
            {"CustomResourceDefinition", "DecisionModel", "PersistentVolumeClaim", "Namespace"},
        ),
        ({"state": False}, {"PersistentVolumeClaim"}, {"CustomResourceDefinition", "DecisionModel"}),
        ({"models": False}, set(), {"CustomResourceDefinition"}),
        ({"definition": False, "models": False}, set(), set()),
    ],
)
def test_which_kinds_outlive_the_environment(retain: dict[str, bool], declared: set[str], kept: set[str]) -> None:
    """A claim would not survive the deletion of its namespace."""
    assert kept_kinds(Retain(**retain), declared) == kept


def test_the_engine_is_told_what_outlives_the_environment() -> None:
    engine = Engine()
    _run("dev", IMAGE | STATE, engine=engine)

    assert engine.kept == {
        "CustomResourceDefinition/cluster/decisionmodels.decisionmodel.io",
        "Namespace/cluster/decision-model-operator-system",
        "PersistentVolumeClaim/decision-model-operator-system/decision-model-operator-state",
        "DecisionModel/default/support-router",
    }


def test_custom_resources_and_config_maps_of_monitoring_can_be_declared() -> None:
    monitored = {
        "decisionmodel:metrics": '{"serviceMonitor": {"enabled": true}}',
        "decisionmodel:prometheusRule": '{"enabled": true}',
        "decisionmodel:grafanaDashboard": '{"enabled": true}',
        "decisionmodel:networkPolicies": '{"enabled": true, "namespaces": ["models"]}',
    }
    declared = {resource.typ.rpartition(":")[2]: resource for resource in _run("dev", IMAGE | monitored)}

    assert declared["ServiceMonitor"].inputs["spec"]["endpoints"]
    assert declared["PrometheusRule"].inputs["spec"]["groups"]
    assert declared["ConfigMap"].inputs["data"]
    assert declared["NetworkPolicy"].inputs["spec"]["policyTypes"]
    assert declared["pulumi:providers:kubernetes".rpartition(":")[2]].inputs["enableConfigMapMutable"] == "true"


def test_the_environment_is_one_cluster_for_good() -> None:
    (provider,) = (resource for resource in _run("dev", IMAGE) if resource.typ == "pulumi:providers:kubernetes")

    assert provider.inputs["clusterIdentifier"] == "decisionmodel-dev"


def test_another_directory_of_models_can_be_named() -> None:
    declared = _run("staging", {**IMAGE, "decisionmodel:models": "dev"})

    assert "DecisionModel/default/support-router" in {resource.name for resource in declared}


def test_the_rules_reach_the_reconciler_as_their_file_stands() -> None:
    declared = _run("prod", {**IMAGE, "decisionmodel:policy": '{"file": "policy.yaml"}'})

    (rules,) = (resource for resource in declared if resource.typ == "kubernetes:core/v1:ConfigMap")
    assert rules.inputs["data"] == {"policy.yaml": (ROOT / "stacks" / "policy.yaml").read_text(encoding="utf-8")}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"file": "nowhere.yaml"}, "nowhere.yaml"),
        ({"file": "policy.yaml", "environment": "moon"}, "policy.yaml: environments: 'moon' is not listed"),
        ({"environment": "prod"}, "decisionmodel:policy: environment: is one of policy.file's"),
    ],
)
def test_nothing_is_declared_when_its_rules_cannot_be_used(policy: dict[str, str], message: str) -> None:
    with pytest.raises(RunError, match=message):
        _run("dev", {**IMAGE, "decisionmodel:policy": json.dumps(policy)})


def test_nothing_is_declared_when_the_configuration_is_wrong() -> None:
    with pytest.raises(RunError, match="decisionmodel:colour: there is no such key"):
        _run("dev", {**IMAGE, "decisionmodel:colour": "blue"})


def test_nothing_is_declared_when_there_are_no_models_to_read() -> None:
    with pytest.raises(RunError, match="nowhere: there is no such directory of models"):
        _run("dev", {**IMAGE, "decisionmodel:models": "nowhere"})


def test_nothing_is_declared_when_the_reconciler_would_not_look_at_a_model() -> None:
    with pytest.raises(RunError, match=r"default/support-router: nobody looks after .* manager\.watchNamespaces"):
        _run("dev", {**IMAGE, "decisionmodel:manager": '{"watchNamespaces": ["models"]}'})


def test_the_committed_environments_can_be_declared() -> None:
    """Their files are read as the CLI reads them: structured values become JSON texts. Nobody waits for the models."""
    for file in sorted((ROOT / "stacks").glob("Pulumi.*.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}

        assert _run(file.name.split(".")[1], texts | UNAWAITED)


@pytest.mark.parametrize("preview", [False, True])
def test_an_update_ends_with_a_look_at_the_models_and_a_preview_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    """Where the cluster is cannot be found out here, and that is what the look says."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    awaited = {"decisionmodel:image": "reconciler:1"}

    if preview:
        assert _run("dev", awaited, preview=True)
        return
    engine = Engine()
    with pytest.raises(RunError, match=r"nothing was applied: .*missing"):
        _run("dev", awaited, engine=engine)
    assert not engine.declared


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "told"), [(401, "Unauthorized"), (403, "Forbidden")])
async def test_nothing_is_applied_where_the_models_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, told: str
) -> None:
    """A definition that is not there yet is no obstacle: this update brings it."""
    program = runpy.run_path(str(ROOT / "__main__.py"), run_name="program")
    model = {"metadata": {"name": "router", "namespace": "default"}}
    async with FakeApiServer() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.write_kubeconfig(tmp_path / "kubeconfig")))
        await asyncio.to_thread(program["_require_answers"], [model])
        server.fail(status)
        with pytest.raises(RunError, match=f"nothing was applied: .*{told}"):
            await asyncio.to_thread(program["_require_answers"], [model])
        await asyncio.to_thread(program["_require_answers"], [])


@pytest.mark.anyio
@pytest.mark.parametrize(("phase", "told"), [("Ready", None), ("Failed", r"default/router: Failed")])
async def test_the_look_is_at_the_cluster_of_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, told: str | None
) -> None:
    program = runpy.run_path(str(ROOT / "__main__.py"), run_name="program")
    reported: list[str] = []
    monkeypatch.setattr("pulumi.log.info", reported.append)
    model = {
        "metadata": {"name": "router", "namespace": "default", "generation": 1},
        "spec": {"model": "laya:en"},
        "status": {"phase": phase, "observedGeneration": 1},
    }
    async with FakeApiServer() as server:
        server.put("decisionmodel.io/v1alpha1", "decisionmodels", model)
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", f"{kubeconfig}:{tmp_path / 'another'}")
        if told is None:
            assert await program["_wait_for"]([model], 5) == 1
        else:
            with pytest.raises(RunError, match=told):
                await program["_wait_for"]([model], 5)
    assert reported == [f"DecisionModel default/router: {phase}"]
