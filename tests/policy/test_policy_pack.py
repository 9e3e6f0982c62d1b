"""The pack as a process, asked over the engine's own protocol."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no annotations, and no stubs are locked
import pytest
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]  # see above
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]  # see above
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from policy import RULES, Level, read_configuration
from tests.policy.manifests import changed, model, objects, one

DIRECTORY = Path(__file__).parents[2] / "policy"
# As the official language host starts the directory, and as the engine starts an executable.
COMMANDS = {
    "directory": [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(DIRECTORY)],
    "executable": [str(DIRECTORY / "decisionmodel-policy"), "127.0.0.1:1"],
}


@pytest.fixture(scope="module", params=COMMANDS)
def pack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        COMMANDS[request.param],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path_factory.mktemp("elsewhere"),
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield analyzer_pb2_grpc.AnalyzerStub(channel)
    process.terminate()
    process.communicate(timeout=30)


def properties(manifest: Any) -> Struct:
    values = Struct()
    values.update(manifest)
    return values


def analyzed(
    pack: Any, manifest: Any, stack: str = "dev", resource_type: str = "kubernetes:any:Kind"
) -> dict[str, str]:
    """Return the messages of the pack about one resource, by policy."""
    request = analyzer_pb2.AnalyzeRequest(
        type=resource_type,
        properties=properties(manifest),
        urn=f"urn:pulumi:{stack}::project::{resource_type}::name",
        name="name",
    )
    return {each.policyName: each.message for each in pack.Analyze(request).diagnostics}


def analyzed_together(pack: Any, *manifests: Any) -> dict[str, str]:
    """Return the URNs that the stack policies complain about, by policy."""
    resources = [
        analyzer_pb2.AnalyzerResource(
            type="kubernetes:any:Kind",
            properties=properties(manifest),
            urn=f"urn:pulumi:dev::project::kubernetes:any:Kind::{manifest['kind']}",
            name=manifest["kind"],
        )
        for manifest in manifests
    ]
    answer = pack.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources))
    return {each.policyName: each.urn for each in answer.diagnostics}


def test_every_rule_is_a_policy_with_its_level(pack: Any) -> None:
    info = pack.GetAnalyzerInfo(Empty())
    levels = {policy.name: analyzer_pb2.EnforcementLevel.Name(policy.enforcementLevel) for policy in info.policies}
    expected = {rule.id: str(rule.level).upper() for rule in RULES}
    assert levels == {**expected, "known-in-preview": "MANDATORY"}
    assert info.name == "decisionmodel"


def test_every_parameter_comes_with_its_meaning(pack: Any) -> None:
    info = pack.GetAnalyzerInfo(Empty())
    parameters = [dict(each) for policy in info.policies for each in policy.configSchema.properties.values()]
    assert parameters
    assert [parameter for parameter in parameters if not parameter.get("description")] == []


def test_objects_in_order_pass(pack: Any) -> None:
    for manifest in [model(replicas=2, cache={"accessModes": ["ReadWriteMany"]}), *objects()]:
        assert analyzed(pack, manifest) == {}
    assert analyzed_together(pack, *objects()) == {}


def test_a_problem_is_told_with_its_place_and_what_to_do(pack: Any) -> None:
    message = analyzed(pack, model(replicas=0))["decisionmodel-valid"]
    assert "spec.replicas: " in message
    assert "Correct the field" in message


def test_relations_are_judged_over_the_whole_stack(pack: Any) -> None:
    without = [each for each in objects() if each["kind"] != "PodDisruptionBudget"]
    complaints = analyzed_together(pack, *without)
    assert complaints == {"disruption-budget-present": "urn:pulumi:dev::project::kubernetes:any:Kind::Deployment"}


def test_what_is_not_known_yet_is_a_breach(pack: Any) -> None:
    unknown = changed(one("Deployment"), "spec/template/spec/containers/0/image", UNKNOWN_STRING_VALUE)
    messages = analyzed(pack, unknown)
    assert "spec.template.spec.containers.0.image is not known" in messages["known-in-preview"]
    assert "can't run policy" in messages["image-pinned-by-digest"]


def test_an_unknown_name_is_no_obstacle(pack: Any) -> None:
    named = changed(changed(model(), "metadata/name", UNKNOWN_STRING_VALUE), "metadata/namespace", UNKNOWN_STRING_VALUE)
    assert "known-in-preview" not in analyzed(pack, named)


def test_resources_of_other_providers_are_passed_over(pack: Any) -> None:
    assert analyzed(pack, model(replicas=0), resource_type="aws:any:Kind") == {}


def configure(pack: Any, document: Any) -> None:
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    for name, values in read_configuration(document).for_pack().items():
        level = values.pop("enforcementLevel")
        request.policyConfig[name].enforcementLevel = analyzer_pb2.EnforcementLevel.Value(level.upper())
        request.policyConfig[name].properties.update(values)
    pack.Configure(request)


def test_the_same_configuration_means_the_same_in_the_pack(pack: Any) -> None:
    custom = model(model="models.example.com/team/laya:en", resources={"limits": {"memory": "1Gi", "cpu": "1"}})
    assert "model-registry-allowed" in analyzed(pack, custom)
    configure(pack, {"rules": {"model-registry-allowed": {"allowed": ["models.example.com"]}}})
    assert analyzed(pack, custom) == {}
    configure(pack, {"rules": {"decisionmodel-valid": {"level": str(Level.DISABLED)}}})
    assert "decisionmodel-valid" not in analyzed(pack, model(replicas=0))
    configure(pack, {})


def test_the_stack_is_the_environment(pack: Any) -> None:
    configure(pack, {"rules": {"evaluation-required": {"environments": ["prod"]}}})
    assert "evaluation-required" not in analyzed(pack, model())
    assert "evaluation-required" in analyzed(pack, model(), stack="prod")
    configure(pack, {})
