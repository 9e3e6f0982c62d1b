"""Looks through the kept connection see what kubectl shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.observing import OPERATOR, OWNED_KINDS, SYSTEM, Bench
from tools.kubectl import wait_until

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kinds", [OWNED_KINDS, "dm", "lease", "events.events.k8s.io", "endpointslices", "sc"])
def test_a_list_is_what_kubectl_shows(bench: Bench, kinds: str) -> None:
    def is_same() -> bool:
        return _identities(bench.kubectl.list(kinds, SYSTEM)) == _identities(_shown(bench, kinds)["items"])

    wait_until("both to have looked at the same moment", is_same, 15)


def test_an_object_is_what_kubectl_shows(bench: Bench) -> None:
    def is_same() -> bool:
        return bench.kubectl.get("deploy", OPERATOR, SYSTEM) == _shown(bench, "deployment", OPERATOR)

    wait_until("both to have looked at the same moment", is_same, 15)


def _shown(bench: Bench, *what: str) -> dict[str, Any]:
    return dict(json.loads(bench.kubectl.run("get", *what, "-n", SYSTEM, "-o", "json")))


def _identities(items: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Return of each object what other writers leave alone between two looks."""
    return [
        (item["apiVersion"], item["kind"], item["metadata"]["uid"], "managedFields" in item["metadata"])
        for item in items
    ]
