"""What the documents say is so: files exist, commands exist, quoted manifests and keys are the real ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client import CollectorRegistry

from api.conditions import ConditionType, Phase, Reason
from api.keys import (
    API_KEY_LABEL,
    DATASET_LABEL,
    DOWNLOAD_TOKEN_LABEL,
    GROUP,
    KIND,
    PROMOTE_ANNOTATION,
    RETRY_ANNOTATION,
)
from api.rollout import Evaluation, Timeouts
from api.spec import DecisionModelSpec
from api.status import EvaluationStatus
from components.environment import read_models
from reconciler.controller.line_metrics import Line, LineCollector
from reconciler.controller.metrics import ControllerMetrics
from reconciler.controller.obstacles import REMEDIES
from reconciler.driver import OperationKind, Outcome
from reconciler.evaluation.dataset import SIZE_LIMIT, parse_dataset
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.metrics import ReflectorCollector, dropped_events_metric
from reconciler.kernel.reflector import Reflector
from reconciler.kernel.resources import Resource
from reconciler.kernel.store import Store
from tests.components.platforms import SYSTEM, one, rendered
from tests.reconciler.rollout.troubles import Trouble, misconfigured, queued, refused, tag_missing
from tests.reconciler.rollout.worlds import World, condition

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def console_commands() -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for block in blocks(document, "console"):
            for line in block.splitlines():
                if line.startswith("$ "):
                    yield document.name, line[2:].split("#", 1)[0].strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text(encoding="utf-8")):
        page = document.parent / target if target else document
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """How a page's headings are linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    named = set(re.findall(r"`make ([a-z-]+)", text)) | {
        command.split()[1] for _, command in console_commands() if command.startswith("make ")
    }
    assert named <= targets
    assert {"demo", "test", "check", "bench", "image", "cluster-up", "cluster-down", "deploy"} <= targets


def test_programs_exist() -> None:
    """A shell finds those that the documents say are needed, and the repository has the others."""
    needed = {"buildah", "export", "make", "kubectl", "pulumi"}
    for document, command in console_commands():
        program = command.split()[0]
        own = ROOT / program
        # The page that calls it by its name says how it gets on the path.
        assert program in needed or (own.is_file() and os.access(own, os.X_OK)), f"{document}: {command}"


def test_modules_are_run_by_the_python_that_has_what_they_need() -> None:
    for document in DOCUMENTS:
        for interpreter in re.findall(
            r"(\S*python3?) -m (?:cli|reconciler|tools)\b", document.read_text(encoding="utf-8")
        ):
            assert interpreter.lstrip("`$(") == ".venv/bin/python", f"{document.name}: {interpreter}"


def test_the_manifest_in_the_readme_is_the_one_that_the_demo_applies() -> None:
    (shown,) = blocks(ROOT / "README.md", "yaml")
    applied = yaml.safe_load((ROOT / "stacks" / "dev" / "support-router.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(shown) == applied


def test_the_demo_output_in_the_readme_is_there() -> None:
    (shown,) = re.findall(
        r"<!-- demo -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert "answered: billing" in shown
    assert ", 0 failed" in shown


def test_requirements_are_what_the_lock_says() -> None:
    uv = shutil.which("uv") or next(iter(sorted(Path.home().glob(".cache/decisionmodel/uv-*/bin/uv"))), None)
    assert uv, "uv is missing: make .venv installs it"
    exported = subprocess.run(
        [str(uv), "export", "--quiet", "--locked", "--offline", "--no-dev", "--no-emit-project", "--no-header"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    written = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in written if not line.startswith("#")] == exported.splitlines()


README = (ROOT / "README.md").read_text(encoding="utf-8")
PHASES = dict(re.findall(r"^\| (`[A-Z]\w+`(?:, `\w+`)*) \| (.+) \|$", README, re.MULTILINE))


def meaning(phase: Phase) -> str:
    (row,) = [text for phases, text in PHASES.items() if f"`{phase}`" in phases]
    return str(row)


def test_every_phase_that_can_be_seen_is_explained_and_no_other() -> None:
    assert sorted(re.findall(r"`(\w+)`", ", ".join(PHASES))) == sorted(set(Phase) - {Phase.PROMOTING})


@pytest.mark.parametrize(
    ("trouble", "phase", "reason"),
    [
        (queued, Phase.PENDING, Reason.ROLLOUT_QUEUED),
        (misconfigured(Reason.API_KEY_INVALID), Phase.DEGRADED, Reason.API_KEY_INVALID),
        (misconfigured(Reason.POLICY_VIOLATION), Phase.DEGRADED, Reason.POLICY_VIOLATION),
        (refused(Reason.REGISTRY_NOT_ALLOWED), Phase.FAILED, Reason.REGISTRY_NOT_ALLOWED),
        (tag_missing, Phase.FAILED, Reason.MODEL_NOT_FOUND),
    ],
)
def test_what_a_phase_is_also_said_to_be(trouble: Trouble, phase: Phase, reason: Reason) -> None:
    world = World()
    world.wants("laya:en")
    decision = trouble(world)

    assert (decision.status.phase, condition(decision, ConditionType.READY).reason) == (phase, reason)
    assert f"`{reason}`" in meaning(phase)


def test_a_persons_word_is_an_annotation_that_exists() -> None:
    annotations = re.findall(r"^\$ kubectl annotate .*?(\S+?)=", README, re.MULTILINE)

    assert annotations == [PROMOTE_ANNOTATION, RETRY_ANNOTATION]
    assert f"`status.evaluation.{EvaluationStatus.model_fields['approval_id'].alias}`" in README


EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_the_case_shown_is_one() -> None:
    (shown,) = blocks(ROOT / "docs" / "evaluation.md", "json")
    (case,) = parse_dataset(shown.encode(), 500).cases

    assert {answer.kind for answer in case.expected} == {"choice", "noul", "score"}
    assert [answer.tolerance for answer in case.expected if answer.kind == "score"] == [1]


def test_the_limits_of_evaluations_are_those_of_the_code() -> None:
    of = Evaluation.model_json_schema()["properties"]["maxCases"]
    minutes = Timeouts().evaluating_timeout.total_seconds() / 60

    assert f"`maxCases` ({of['default']} if unset, at most {of['maximum']})" in EVALUATION
    assert f"at most {SIZE_LIMIT >> 20} MiB" in EVALUATION
    assert f"`rollout.timeouts.evaluating` ({minutes:.0f} minutes if unset)" in EVALUATION
    assert '`decisionmodel.io/eval-dataset: "true"`' in EVALUATION


ENVIRONMENTS = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")


def test_secrets_of_models_are_listed_with_the_label_that_opens_them() -> None:
    listed = re.findall(r"^\| .+ \| `spec\.([\w.]+)` \| `([\w./-]+)` \|$", ENVIRONMENTS, re.MULTILINE)
    names = {API_KEY_LABEL, DOWNLOAD_TOKEN_LABEL, DATASET_LABEL}

    assert {label for _, label in listed} == names
    assert len(listed) == len(names)
    for path, label in listed:
        assert f'{label}: "true"' in described(path), path


def described(path: str) -> str:
    """What the schema says about a field of a spec."""
    schema = DecisionModelSpec.model_json_schema()
    node = schema
    for name in path.split("."):
        field = node["properties"][name]
        branch = next((each for each in (field, *field.get("anyOf", ())) if "$ref" in each), field)
        node = schema["$defs"][branch["$ref"].rpartition("/")[2]] if "$ref" in branch else branch
    return str(field.get("description", ""))


def test_what_a_cluster_may_ask_for_can_be_said() -> None:
    (shown,) = [each for each in blocks(ROOT / "docs" / "environments.md", "yaml") if "pods:" in each]
    spec = yaml.safe_load(shown)["spec"]

    assert DecisionModelSpec.model_validate({"model": "laya:en", **spec}).model_dump(
        mode="json", exclude_defaults=True
    ) == {"model": "laya:en", **spec}
    section = ENVIRONMENTS.partition("### Where a cluster has rules of its own")[2].partition("\n## ")[0]
    listed = re.findall(r"`spec\.([\w.]+)", section.partition("```yaml")[0])
    assert {"cache.prefetch.resources", "pods.imagePullSecrets", "pods.labels", "pods.identity"} <= set(listed)
    assert all(described(path) for path in listed)


@pytest.mark.parametrize("environment", ["dev", "staging", "prod"])
def test_namespaces_that_have_to_exist_are_named_with_the_command(environment: str) -> None:
    path = ROOT / "stacks" / f"Pulumi.{environment}.yaml"
    text = path.read_text(encoding="utf-8")
    configuration = {key.removeprefix("decisionmodel:"): value for key, value in yaml.safe_load(text)["config"].items()}
    objects = [*rendered(**configuration), *read_models(ROOT / "stacks" / environment)]
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
    needed = {each["metadata"].get("namespace", SYSTEM) for each in objects} - made - {"default", "kube-system"}

    assert needed == set(re.findall(r"kubectl create namespace (\S+)", text.partition("config:")[0]))
    for namespace in needed:
        assert f"`kubectl create namespace {namespace}`" in ENVIRONMENTS


MONITORING = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def test_every_alert_is_explained() -> None:
    (group,) = one("PrometheusRule", prometheusRule={"enabled": True})["spec"]["groups"]

    assert re.findall(r"^\| `(DecisionModel\w+)` \|", MONITORING, re.MULTILINE) == [
        alert["alert"] for alert in group["rules"]
    ]


def test_our_own_metrics_are_listed_with_their_labels() -> None:
    listed = {
        name: set(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `([a-z_]+)` \| ((?:`\w+`(?:, )?)+) \|", MONITORING, re.MULTILINE)
    }

    assert listed == {
        name: labels
        for name, labels in exported().items()
        if name.startswith(("decisionmodel_stack_", "decisionmodel_work_", "event_recorder_", "reflector_"))
    }


def exported() -> dict[str, set[str]]:
    """The labels of every metric, by its name, once there is something to count."""
    registry = CollectorRegistry()
    ControllerMetrics(registry).operated(Outcome(stack="s", kind=OperationKind.UP, failure=None, seconds=1.0))
    dropped_events_metric(registry)("QueueFull")
    client = KubernetesClient(httpx2.AsyncClient(), httpx2.AsyncClient(), field_manager="tests")
    things = Reflector(client, Resource("example.io", "v1", "things", "Thing"), Store())
    registry.register(ReflectorCollector([things], lambda: 0.0))
    line = Line(held={"default": 1}, waiting={"other": (1, 1.0)})
    registry.register(LineCollector({"stack": lambda: line}))
    return {
        f"{family.name}{'_total' if family.type == 'counter' else ''}": {*sample.labels} - {"le"}
        for family in registry.collect()
        for sample in family.samples
    }


def test_every_obstacle_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\| (`[\w`, ]+`) \| (?:Pod|claim|Deployment, Job) \|", MONITORING, re.MULTILINE)

    listed = [reason for row in rows for reason in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(REMEDIES)


def test_our_own_reasons_exist() -> None:
    listed = re.findall(r"^\| `([A-Z]\w+)` \| `(\w+)` \|", MONITORING, re.MULTILINE)

    assert listed
    for reason, type_ in listed:
        assert reason in set(Reason)
        assert type_ in set(ConditionType)


def test_the_health_check_for_argo_cd_reads_conditions_and_phases_that_exist() -> None:
    waiting = (ROOT / "docs" / "waiting.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```yaml\n(resource\.customizations.*?)```", waiting, re.DOTALL)

    assert f"health.{GROUP}_{KIND}: |" in script
    assert set(re.findall(r'found\["(\w+)"\]', script)) == {"Reconciling", "Stalled", "Ready"} <= set(ConditionType)
    assert set(re.findall(r'phase == "(\w+)"', script)) <= set(Phase)
    assert set(re.findall(r'status = "(\w+)"', script)) == {"Progressing", "Degraded", "Suspended", "Healthy"}
    # Whatever generation is spoken of, giving up comes before going on, and that before what serves.
    order = [script.index(each) for each in ("observedGeneration", 'stalled.status == "True"', "reconciling.status")]
    assert order == sorted(order)
