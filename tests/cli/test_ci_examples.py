"""What docs/ci offers to copy: the commands end as they say."""

from __future__ import annotations

import json
import os
import re
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


WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.yaml")}
JOBS = [
    pytest.param(name, job, id=f"{name}-{key}")
    for name, text in WORKFLOWS.items()
    for key, job in yaml.safe_load(text)["jobs"].items()
]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit_with_their_version_beside(name: str) -> None:
    used = [line.strip() for line in WORKFLOWS[name].splitlines() if re.search(r"\buses:", line)]
    assert len(used) > 4
    for line in used:
        assert re.fullmatch(r"(- )?uses: [\w./-]+@[0-9a-f]{40}  # v[0-9]+\.[0-9]+\.[0-9]+", line), line


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_each_job_has_the_permissions_that_it_needs_and_no_others(name: str, job: Any) -> None:
    assert yaml.safe_load(WORKFLOWS[name])["permissions"] == {}
    assert job["permissions"]["contents"] == "read"
    uses = " ".join(step.get("uses", "") for step in job["steps"])
    assert ("security-events" in job["permissions"]) == ("upload-sarif" in uses)
    assert ("pull-requests" in job["permissions"]) == ("github-script" in uses)


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_the_branch_that_a_change_is_for_brings_code_and_rules(name: str, job: Any) -> None:
    # YAML 1.1 reads the key `on` as a boolean.
    assert list(yaml.safe_load(WORKFLOWS[name])[True]) == ["pull_request_target"]
    base, proposal = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert "ref" not in base["with"]
    assert proposal["with"]["path"] == ".proposal"
    assert not base["with"]["persist-credentials"]
    assert not proposal["with"]["persist-credentials"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    reading = [command for command in commands if ".proposal" in command]
    assert reading == ['sh docs/ci/take-proposal.sh "$ENVIRONMENT" .proposal']
    assert not any("${{" in command for command in commands), "what a change says is never part of a command"


def test_a_change_brings_its_models_and_nothing_else(tmp_path: Path) -> None:
    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    for file in ("stacks/policy.yaml", "stacks/Pulumi.prod.yaml", "stacks/prod/gone.yaml", "cli/__main__.py"):
        put(file, "base")
        put(f".proposal/{file}", "relaxed")
    (tmp_path / ".proposal" / "stacks" / "prod" / "gone.yaml").unlink()
    for file in ("model.yaml", "team/other.yml", "run.py", "a b.yaml"):
        put(f".proposal/stacks/prod/{file}", "proposed")
    put("secret.yaml", "secret")
    (tmp_path / ".proposal" / "stacks" / "prod" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (tmp_path / ".proposal" / "stacks" / "prod" / "folder").symlink_to(tmp_path)

    script = EXAMPLES / "take-proposal.sh"
    subprocess.run(["sh", script, "prod", ".proposal"], cwd=tmp_path, check=True)

    taken = sorted(str(path.relative_to(tmp_path / "stacks")) for path in (tmp_path / "stacks").rglob("*.*"))
    assert taken == ["Pulumi.prod.yaml", "policy.yaml", "prod/a b.yaml", "prod/model.yaml", "prod/team/other.yml"]
    assert {path.read_text() for path in (tmp_path / "stacks").glob("*.yaml")} == {"base"}
    assert (tmp_path / "cli" / "__main__.py").read_text() == "base"


@pytest.mark.parametrize("place", ["stacks", "stacks/prod"])
def test_a_link_in_the_place_of_the_models_brings_nothing(tmp_path: Path, place: str) -> None:
    (tmp_path / "elsewhere" / "prod").mkdir(parents=True)
    (tmp_path / "elsewhere" / "prod" / "secret.yaml").write_text("secret")
    link = tmp_path / ".proposal" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere" / place.removeprefix("stacks").strip("/"))

    subprocess.run(["sh", EXAMPLES / "take-proposal.sh", "prod", ".proposal"], cwd=tmp_path, check=True)

    assert [*(tmp_path / "stacks").rglob("*.yaml")] == []


def test_a_name_that_is_no_environment_removes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(["sh", EXAMPLES / "take-proposal.sh", "../x", ".proposal"], cwd=tmp_path, check=False)
    assert done.returncode == 3
