"""What docs/ci offers to copy: the commands end as they say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy import read_configuration
from tests.policy.manifests import model

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "ci"
WORKFLOW: Any = yaml.safe_load((EXAMPLES / "github-actions.yaml").read_text(encoding="utf-8"))
CONFIGURATION: Any = yaml.safe_load((ROOT / "stacks" / "policy.yaml").read_text(encoding="utf-8"))
JUDGE = "Judge the manifests"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with environments of its own."""
    for name in ("docs", ".venv", "policy"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "stacks" / "dev").mkdir(parents=True)
    (tmp_path / "stacks" / "policy.yaml").symlink_to(ROOT / "stacks" / "policy.yaml")
    return tmp_path


def commands(job: str) -> dict[str, str]:
    return {step["name"]: step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step}


def run(command: str, checkout: Path, environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "ENVIRONMENT": environment}
    return subprocess.run(
        ["sh", "-c", command], cwd=checkout, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("manifest", "code", "reported"),
    [
        (yaml.safe_dump(model()), 0, 0),
        (yaml.safe_dump(model(image="registry.example.com/own:1")), 2, 3),
        ("spec: [", 3, None),
    ],
    ids=["passes", "refused", "unreadable"],
)
def test_the_workflows_judgement_ends_as_it_should(
    checkout: Path, manifest: str, code: int, reported: int | None
) -> None:
    (checkout / "stacks" / "dev" / "model.yaml").write_text(manifest)
    done = run(commands("check")[JUDGE], checkout, "dev")
    assert done.returncode == code, done.stdout + done.stderr
    log = checkout / "policy.sarif"
    assert log.exists() == (reported is not None)
    if reported is not None:
        assert len(json.loads(log.read_text())["runs"][0]["results"]) == reported
        assert (checkout / "policy-junit.xml").exists()


def test_the_packs_configuration_is_written_before_the_preview_reads_it(checkout: Path) -> None:
    steps = commands("preview")
    done = run(steps["Write the pack's configuration"], checkout, "prod")
    assert done.returncode == 0, done.stderr
    written = json.loads((checkout / "pack.json").read_text())
    assert written["resources-requested"]["enforcementLevel"] == "mandatory"
    preview = steps["Preview under the pack"].split()
    assert preview[:2] == ["pulumi", "preview"]
    assert (checkout / preview[preview.index("--policy-pack") + 1] / "PulumiPolicy.yaml").exists()
    assert (checkout / preview[preview.index("--policy-pack-config") + 1]).exists()


def test_every_environment_of_the_workflow_is_configured() -> None:
    for environment in WORKFLOW["jobs"]["check"]["strategy"]["matrix"]["environment"]:
        read_configuration(CONFIGURATION, environment)
        assert (ROOT / "stacks" / environment).is_dir()


def test_a_step_shows_the_findings_also_when_the_judgement_refused() -> None:
    (upload,) = [step for step in WORKFLOW["jobs"]["check"]["steps"] if "upload-sarif" in step.get("uses", "")]
    assert upload["if"].startswith("always()")
    assert upload["with"]["sarif_file"] == "policy.sarif"
