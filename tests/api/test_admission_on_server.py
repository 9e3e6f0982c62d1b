"""A real API server accepts and refuses what the table says, with messages a user can act on."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from api.crd import CRD_FILE, CRD_NAME
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
