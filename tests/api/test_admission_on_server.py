"""A real API server accepts and refuses what the table says, with messages a user can act on."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from api.crd import CRD_FILE, CRD_NAME, load
from tools.kubectl import Kubectl
from tools.observer import wait_until_served

pytestmark = pytest.mark.cluster


def _kubectl(kubeconfig: Path | str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def served(kubeconfig: Path) -> Path:
    """Return the kubeconfig of a server that serves the committed CustomResourceDefinition."""
    applied = _kubectl(kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", str(CRD_FILE))
    assert applied.returncode == 0, applied.stderr
    wait_until_served(Kubectl(kubeconfig), CRD_NAME)
    return kubeconfig


def _try(kubeconfig: Path, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return _kubectl(kubeconfig, "apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(manifest))


def test_accepted_objects(served: Path, accepted: dict[str, Any]) -> None:
    answer = _try(served, accepted["manifest"])

    assert answer.returncode == 0, answer.stderr


def test_refused_objects_say_why(served: Path, refused: dict[str, Any]) -> None:
    answer = _try(served, refused["manifest"])

    assert answer.returncode != 0, answer.stdout
    assert refused.get("rule", "") in answer.stderr
    assert refused.get("schema", "") in answer.stderr


def test_defaults_are_filled_in_where_their_object_is_given(served: Path) -> None:
    manifest = {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": "defaults"},
        "spec": {"model": "laya:en", "cache": {}, "rollout": {"timeouts": {}}},
    }

    answer = _try(served, manifest)

    assert json.loads(answer.stdout)["spec"] == {
        "model": "laya:en",
        "engine": "ollaya",
        "device": "cpu",
        "replicas": 1,
        "cache": {"size": "10Gi"},
        "rollout": {"manualPromotion": False, "stabilization": "5m", "timeouts": {}},
    }


def test_the_short_name_and_the_columns(served: Path) -> None:
    answer = _kubectl(served, "get", "dm", "-o", "wide", "--all-namespaces", "-v=6")

    assert answer.returncode == 0, answer.stderr
    assert "/apis/decisionmodel.io/v1alpha1/decisionmodels" in answer.stderr


HUGE = [
    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"x{number}"}}}}
    for number in range(10_000)
]
LARGE_SPEC = {
    "model": "laya:en",
    "scheduling": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": HUGE}}},
}


def test_an_object_beyond_a_bound_is_refused_with_the_field_named(served: Path) -> None:
    manifest = {"apiVersion": "decisionmodel.io/v1alpha1", "kind": "DecisionModel", "metadata": {"name": "large"}}

    answer = _try(served, {**manifest, "spec": LARGE_SPEC})

    assert answer.returncode != 0
    where = "spec.scheduling.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    assert f"{where}: Too many: 10000: must have at most 256 items" in answer.stderr


def _renamed(definition: dict[str, Any], *, bounded: bool) -> str:
    """The definition under names of its own: kubectl would find any that it shared with the real one."""
    names = {"kind": "Bounded", "listKind": "BoundedList", "plural": "boundeds", "singular": "bounded"}
    spec = {**definition["spec"], "group": "bounds.test", "names": names}
    text = json.dumps({**definition, "metadata": {"name": "boundeds.bounds.test"}, "spec": spec})
    return text if bounded else re.sub(r'"max(Items|Length|Properties)": [0-9]+, ', "", text)


def test_an_object_that_was_let_in_before_stays_and_can_be_told_about(kubeconfig: Path) -> None:
    name = "boundeds.bounds.test"
    obj = {"apiVersion": "bounds.test/v1alpha1", "kind": "Bounded", "metadata": {"name": "large"}}
    for bounded in (False, True):
        definition = _renamed(load(), bounded=bounded)
        applied = _kubectl(kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definition)
        assert applied.returncode == 0, applied.stderr
        wait_until_served(Kubectl(kubeconfig), name)
        if not bounded:
            created = _kubectl(kubeconfig, "create", "-f", "-", stdin=json.dumps({**obj, "spec": LARGE_SPEC}))
            assert created.returncode == 0, created.stderr
    status = json.dumps({"status": {"phase": "Failed"}})

    told = _kubectl(kubeconfig, "patch", name, "large", "--subresource=status", "--type=merge", "-p", status)
    noted = _kubectl(kubeconfig, "annotate", name, "large", "decisionmodel.io/retry=1")

    assert told.returncode == 0, told.stderr
    assert noted.returncode == 0, noted.stderr
    assert _kubectl(kubeconfig, "delete", "crd", name).returncode == 0
