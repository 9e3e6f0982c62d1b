"""What docs/ci offers to copy for previews: the script ends as it says, and the workflow holds together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policy.manifests import model

ROOT = Path(__file__).parents[3]
WORKFLOW: Any = yaml.safe_load((ROOT / "docs" / "ci" / "preview.yaml").read_text(encoding="utf-8"))
STEPS = {step.get("name", step.get("uses")): step for step in WORKFLOW["jobs"]["preview"]["steps"]}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an environment of its own."""
    for name in ("docs", ".venv", "Pulumi.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    models = tmp_path / "stacks" / "staging"
    models.mkdir(parents=True)
    (models.parent / "policy.yaml").symlink_to(ROOT / "stacks" / "policy.yaml")
    (models.parent / "Pulumi.staging.yaml").write_text(
        yaml.safe_dump({"config": {"decisionmodel:image": "registry.example.com/reconciler:1"}})
    )
    return tmp_path


def run(
    checkout: Path, manifest: str, options: str = "--offline", **variables: str
) -> subprocess.CompletedProcess[str]:
    (checkout / "stacks" / "staging" / "model.yaml").write_text(manifest)
    command = STEPS["Preview"]["run"].split(" --kubeconfig")[0]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ENVIRONMENT": "staging", **variables}
    return subprocess.run(
        ["sh", "-c", f"{command} {options}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("manifest", "code", "told"),
    [
        (yaml.safe_dump(model()), 0, "| `team-a/laya` | new revision |"),
        (yaml.safe_dump(model(model="models.example.com/laya:en")), 2, "**refused** `RegistryNotAllowed`"),
        ("spec: [", 3, "    Error: stacks/staging/model.yaml:1: "),
    ],
    ids=["changes", "refused", "unreadable"],
)
def test_the_script_writes_the_comment_and_ends_as_it_says(checkout: Path, manifest: str, code: int, told: str) -> None:
    done = run(checkout, manifest)
    assert done.returncode == code, done.stdout + done.stderr
    comment = (checkout / "preview.md").read_text(encoding="utf-8")
    assert comment.startswith("<!-- preview: staging -->\n## staging\n")
    assert told in comment
    assert sorted(path.name for path in checkout.glob("preview.*")) == ["preview.md"]


@pytest.mark.parametrize("kubeconfig", ["", "junk"], ids=["unset secret", "other content"])
def test_without_a_usable_kubeconfig_nothing_passes(checkout: Path, kubeconfig: str) -> None:
    (checkout / "kubeconfig").write_text(kubeconfig)
    done = run(checkout, yaml.safe_dump(model()), "--kubeconfig kubeconfig")
    assert done.returncode == 3, done.stdout + done.stderr


@pytest.mark.parametrize("code", [1, 120, 127, 139])
def test_a_python_that_cannot_run_dmctl_passes_nothing(checkout: Path, code: int) -> None:
    broken = checkout / "broken"
    broken.write_text(f"#!/bin/sh\nexit {code}\n")
    broken.chmod(0o755)
    assert run(checkout, yaml.safe_dump(model()), PYTHON=str(broken)).returncode == 3


def test_rules_are_judged_before_the_cluster_is_asked() -> None:
    assert WORKFLOW["jobs"]["preview"]["needs"] == "check"
    judge = WORKFLOW["jobs"]["check"]["steps"][-1]["run"]
    assert judge.startswith("sh docs/ci/policy-check.sh ")


def test_the_comment_is_written_also_when_the_preview_refuses() -> None:
    comment = STEPS["Comment"]
    assert comment["if"].startswith("always()")
    assert "preview.md" in comment["with"]["script"]
    assert WORKFLOW["jobs"]["preview"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert WORKFLOW["jobs"]["check"]["permissions"] == {"contents": "read"}


def test_only_a_comment_of_the_pipeline_itself_is_written_over() -> None:
    script = STEPS["Comment"]["with"]["script"]
    assert "comment.user.login === 'github-actions[bot]'" in script
    assert "mine(comment) && comment.body.startsWith(marker)" in script


def test_forks_get_no_credentials() -> None:
    assert WORKFLOW["jobs"]["preview"]["if"] == "github.event.pull_request.head.repo.full_name == github.repository"


def test_every_environment_of_the_workflow_exists() -> None:
    for job in WORKFLOW["jobs"].values():
        for environment in job["strategy"]["matrix"]["environment"]:
            assert (ROOT / "stacks" / f"Pulumi.{environment}.yaml").is_file()
