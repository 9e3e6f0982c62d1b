"""`pulumi preview` of an environment's own program under the pack, as a pipeline runs it; no cluster answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy import read_configuration
from tools import toolchain
from tools.deploy import ROOT, DeployError, run_pulumi

pytestmark = pytest.mark.cluster

STACK = "staging"
# Refuses connections: a preview of what does not exist yet asks for nothing.
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
    "current-context": "nowhere",
}
Preview = Callable[[Any], str]


@pytest.fixture(params=["policy", "policy/decisionmodel-policy"], ids=["by the language host", "as a program"])
def pack(request: pytest.FixtureRequest) -> Path:
    """The pack, in the two ways in which docs/policy.md starts it."""
    return ROOT / str(request.param)


@pytest.fixture
def preview(tmp_path: Path, pack: Path) -> Preview:
    """Preview the stack under a configuration of the rules; returns what the CLI printed."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text()) | {"main": str(ROOT), "stackConfigDir": "."}
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (tmp_path / f"Pulumi.{STACK}.yaml").write_text((ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    (tmp_path / "state").mkdir()
    toolchain.prepare_pulumi_home(tmp_path / "home")
    environment = {
        **os.environ,
        "PATH": f"{ROOT / 'tools' / 'language_host'}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    run_pulumi(tmp_path, environment, "stack", "select", STACK, "--create", timeout=60)

    def run(document: Any) -> str:
        (tmp_path / "pack.json").write_text(json.dumps(read_configuration(document).for_pack()))
        arguments = ("--stack", STACK, "--policy-pack", str(pack), "--policy-pack-config", "pack.json")
        return run_pulumi(tmp_path, environment, "preview", *arguments, timeout=300)

    return run


def test_an_environment_in_order_passes_and_one_without_its_evaluation_is_refused(preview: Preview) -> None:
    printed = preview({"rules": {"memory-limit-headroom": {"level": "disabled"}}})
    assert "decisionmodel@v0.1.0" in printed
    assert "DecisionModel/default/support-router" in printed
    assert "[mandatory]" not in printed
    assert "[advisory]" not in printed

    with pytest.raises(DeployError) as refusal:
        preview({"rules": {"evaluation-required": {"environments": [STACK]}}})
    assert "[mandatory]" in str(refusal.value)
    assert "evaluation-required" in str(refusal.value)
    assert "spec.rollout.evaluation: models in staging are scored before they serve" in str(refusal.value)
