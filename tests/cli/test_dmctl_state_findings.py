"""What counts as wrong with a state, and what is planned about it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.state.examining import Examined
from cli.state.findings import Code, Finding, described_model, orphan, stale_locks, unsound
from cli.state.mending import Change, removal, repairs
from components import names
from components.desired import Owner
from reconciler.driver.deployment import parse_deployment
from reconciler.driver.recovery import LockOwner

OWNER = Owner(namespace="shop", name="fraud", uid="1a2b3c4d-0000-4000-8000-000000000000")
STACK = names.stack(OWNER)


def service(stack: str = STACK, owner: Owner | None = OWNER, **metadata: Any) -> dict[str, Any]:
    references = [] if owner is None else [names.owner_reference(owner)]
    namespace = "shop" if owner is None else owner.namespace
    return {
        "urn": f"urn:pulumi:{stack}::decisionmodel::kubernetes:core/v1:Service::fraud",
        "type": "kubernetes:core/v1:Service",
        "inputs": {"metadata": {"namespace": namespace, "ownerReferences": references, **metadata}},
    }


def codes(*resources: dict[str, Any], pending: tuple[str, ...] = ()) -> list[Code]:
    operations = [{"resource": {"urn": urn}, "type": "creating"} for urn in pending]
    content = {"resources": list(resources), "pending_operations": operations}
    deployment = parse_deployment(json.dumps({"version": 3, "deployment": content}).encode())
    return [finding.code for finding in unsound(STACK, deployment)]


def test_a_state_of_its_owner_is_sound() -> None:
    root = {"urn": f"urn:pulumi:{STACK}::decisionmodel::pulumi:pulumi:Stack::x", "type": "pulumi:pulumi:Stack"}
    assert codes(root, service()) == []


@pytest.mark.parametrize(
    "foreign",
    [
        service(stack="shop.other.1a2b3c4d"),
        service(owner=None),
        service(owner=Owner(namespace="shop", name="fraud", uid="99999999-0000")),
        service(owner=Owner(namespace="shop", name="other", uid=OWNER.uid)),
        service(owner=Owner(namespace="bank", name="fraud", uid=OWNER.uid)),
        service(owner=Owner(namespace="shop", name="fraud", uid="")),
        service(ownerReferences=[{**names.owner_reference(OWNER), "controller": False}]),
        service(ownerReferences=[{**names.owner_reference(OWNER), "kind": "Deployment"}]),
        service(ownerReferences="hostile"),
        {**service(), "inputs": {"metadata": 7}},
        {**service(), "inputs": None},
    ],
)
def test_what_another_owner_controls_is_foreign(foreign: dict[str, Any]) -> None:
    assert codes(foreign) == [Code.FOREIGN_RESOURCE]


def test_what_was_interrupted_is_found() -> None:
    assert codes(service(), pending=("urn:x",)) == [Code.PENDING_OPERATION]


def test_only_the_leader_can_hold_a_lock() -> None:
    lock = LockOwner(host="pod-a", pid=7, locked_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert stale_locks(STACK, [lock], "pod-a") == []
    for leader in ("pod-b", None):
        (found,) = stale_locks(STACK, [lock], leader)
        assert found.code is Code.STALE_LOCK
        assert found.message == "locked by process 7 of pod-a since 2026-05-01T00:00:00+00:00"


def test_a_lock_that_cannot_be_read_is_nobodys() -> None:
    (found,) = stale_locks(STACK, [None], "pod-a")
    assert found.code is Code.STALE_LOCK


def test_an_orphan_is_one_only_where_somebody_was_asked() -> None:
    assert orphan(STACK, None) == []
    assert orphan(STACK, frozenset({STACK})) == []
    assert [each.code for each in orphan(STACK, frozenset())] == [Code.ORPHANED]
    assert described_model(STACK) == "shop/fraud"


@pytest.mark.parametrize(
    ("found", "repaired", "removed"),
    [
        ((), [], [Change.DROP]),
        ((Code.ORPHANED,), [], [Change.DROP]),
        ((Code.STALE_LOCK,), [Change.UNLOCK], [Change.UNLOCK, Change.DROP]),
        ((Code.UNREADABLE,), [Change.START_ANEW], [Change.START_ANEW, Change.DROP]),
        ((Code.FOREIGN_RESOURCE,), [Change.TAKE_OUT], [Change.DROP]),
        ((Code.PENDING_OPERATION, Code.STALE_LOCK), [Change.UNLOCK, Change.TAKE_OUT], [Change.UNLOCK, Change.DROP]),
    ],
)
def test_each_finding_has_its_repair(found: tuple[Code, ...], repaired: list[Change], removed: list[Change]) -> None:
    findings = tuple(Finding(stack=STACK, code=code, message="") for code in found)
    examined = Examined(stack=STACK, deployment=None, findings=findings)
    assert [each.change for each in repairs(examined)] == repaired
    assert [each.change for each in removal(examined)] == removed
