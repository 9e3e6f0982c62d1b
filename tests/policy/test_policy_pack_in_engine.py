"""The real pack under the real engine: what must be refused is, and what is in order passes. No cluster is needed."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import PersistentVolumeClaim, Service
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from policy import read_configuration
from tests.components.engines import Engine
from tests.policy.manifests import changed, model, objects
from tools import toolchain

pytestmark = pytest.mark.cluster

PACK = Path(__file__).parents[2] / "policy" / "decisionmodel-policy"
_TYPES: Mapping[str, Any] = {
    each.__name__: each for each in (Deployment, Job, PersistentVolumeClaim, Service, PodDisruptionBudget)
} | {"DecisionModel": CustomResource}
GATE_REMOVED = "spec/template/spec/readinessGates"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    cli = tmp_path / "cli" / "bin" / "pulumi"
    cli.parent.mkdir(parents=True)
    cli.symlink_to(toolchain.program_path("pulumi"))
    toolchain.prepare_pulumi_home(tmp_path / "home")
    return Engine(tmp_path)


def declare(directory: Path, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Declare the manifests with a provider that writes files instead of asking a cluster."""
    options = pulumi.ResourceOptions(provider=Provider("kubernetes", render_yaml_to_directory=str(directory)))
    for manifest in manifests:
        name = f"{manifest['kind']}-{manifest['metadata']['name']}"
        _TYPES[manifest["kind"]](
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=manifest["metadata"],
            spec=manifest.get("spec"),
            opts=options,
        )


class Previews:
    """Previews of one stack under the pack."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine = engine
        self._directory = directory

    def __call__(self, *manifests: Mapping[str, Any], **settings: Mapping[str, Any]) -> str:
        """Return what the CLI printed.

        Raises:
            automation.CommandError: The preview was refused; the message has what the CLI printed.
        """
        configuration = self._directory / "pack.json"
        configuration.write_text(json.dumps(settings))
        stack = self._engine.stack(functools.partial(declare, self._directory, manifests))
        return stack.preview(policy_packs=[str(PACK)], policy_pack_configs=[str(configuration)]).stdout


@pytest.fixture
def preview(engine: Engine, tmp_path: Path) -> Previews:
    directory = tmp_path / "manifests"
    directory.mkdir()
    return Previews(engine, directory)


def test_a_model_with_all_its_objects_passes(preview: Previews) -> None:
    printed = preview(model(), *objects())
    assert "decisionmodel@v0.1.0" in printed
    assert "[advisory]" not in printed


def test_one_wrong_field_refuses_the_preview(preview: Previews) -> None:
    (deployment,) = [each for each in objects() if each["kind"] == "Deployment"]
    with pytest.raises(automation.CommandError) as refusal:
        preview(changed(deployment, GATE_REMOVED, []))
    assert "[mandatory]" in str(refusal.value)
    assert "readiness-gate-present" in str(refusal.value)
    assert "spec.template.spec.readinessGates: lacks the gate decisionmodel.io/model-ready" in str(refusal.value)


def test_a_relation_between_objects_refuses_the_preview(preview: Previews) -> None:
    with pytest.raises(automation.CommandError, match="disruption-budget-present"):
        preview(*(each for each in objects() if each["kind"] != "PodDisruptionBudget"))


def test_levels_and_parameters_come_from_the_packs_configuration(preview: Previews) -> None:
    custom = model(model="models.example.com/team/own:1", resources={"limits": {"cpu": "1", "memory": "1Gi"}})
    with pytest.raises(automation.CommandError, match="model-registry-allowed"):
        preview(custom)
    document: dict[str, Any] = {"rules": {"model-registry-allowed": {"allowed": ["models.example.com"]}}}
    assert "[advisory]" not in preview(custom, **read_configuration(document).for_pack())
    document = {"rules": {"model-registry-allowed": {"level": "advisory"}}}
    assert "[advisory]" in preview(custom, **read_configuration(document).for_pack())


def test_the_stack_is_the_environment(preview: Previews) -> None:
    with pytest.raises(automation.CommandError, match="evaluation-required"):
        preview(model(), **{"evaluation-required": {"environments": ["team-a.laya.6f1c2a34"]}})
