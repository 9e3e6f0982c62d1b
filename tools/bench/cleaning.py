"""Removing what a round has left, to the last object, so that it cannot slow the next one down."""

from __future__ import annotations

from api.keys import NAME_LABEL
from tools.kubectl import Kubectl, wait_until

_KINDS = "pods,deployments,jobs,persistentvolumeclaims,services,poddisruptionbudgets,configmaps"
_SECONDS = 90.0


def fresh_namespace(kubectl: Kubectl, name: str) -> None:
    """Make an empty namespace; what an earlier, interrupted run left in it goes."""
    kubectl.run("delete", "namespace", name, "--ignore-not-found", timeout=_SECONDS)
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def remove_model(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Delete a DecisionModel, and wait until the garbage collector has taken its objects."""
    kubectl.delete("decisionmodel", name, namespace)
    _wait_until_gone(kubectl, namespace, name)


def remove_objects(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Delete objects that have no owner, by the name label."""
    kubectl.run("delete", _KINDS, "-n", namespace, "-l", f"{NAME_LABEL}={name}", timeout=_SECONDS)
    _wait_until_gone(kubectl, namespace, name)


def _wait_until_gone(kubectl: Kubectl, namespace: str, name: str) -> None:
    look = ("get", _KINDS, "-n", namespace, "-l", f"{NAME_LABEL}={name}", "-o", "name")
    wait_until(f"the objects of {name} to go", lambda: not kubectl.run(*look).strip(), _SECONDS, every=0.5)
