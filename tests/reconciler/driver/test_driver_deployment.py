"""Exported states: what is read of them, what is refused, and what stays when something is taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.driver.deployment import Deployment, PendingOperation, parse_deployment, without
from reconciler.driver.errors import DeploymentInvalidError

ROOT = {"urn": "urn:root", "type": "pulumi:pulumi:Stack"}
PROVIDER = {"urn": "urn:a::provider", "type": "pulumi:providers:kubernetes", "parent": "urn:root"}


def resource(urn: str, **fields: Any) -> dict[str, Any]:
    return {"urn": urn, "type": "kubernetes:core/v1:Service", **fields}


def exported(*resources: dict[str, Any], pending: Any = None, **content: Any) -> bytes:
    deployment = {"manifest": {}, "resources": list(resources), **content}
    if pending is not None:
        deployment["pending_operations"] = pending
    return json.dumps({"version": 3, "deployment": deployment}).encode()


def urns(deployment: Deployment) -> list[str]:
    return [each.urn for each in deployment.resources]


def test_resources_and_what_is_pending_are_read() -> None:
    child = resource("urn:b", parent="urn:root", provider="urn:a::provider::id", dependencies=["urn:root"])
    read = parse_deployment(
        exported(ROOT, PROVIDER, child, pending=[{"resource": {"urn": "urn:c"}, "type": "creating"}])
    )
    assert urns(read) == ["urn:root", "urn:a::provider", "urn:b"]
    assert read.resources[2].needs == {"urn:root", "urn:a::provider"}
    assert read.pending == (PendingOperation(urn="urn:c", kind="creating"),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no exported state"),
        (b'{"version": 3, "deployment": []}', "no exported state"),
        (b'{"version": 4, "deployment": {}}', "version is 4"),
        (exported(resource("urn:b", parent="urn:root")), "urn:b needs urn:root"),
        (exported(ROOT, {"urn": "urn:b"}), r"resources\[1\] has no urn or no type"),
        (exported(ROOT, resource("urn:b", dependencies="urn:root")), r"resources\[1\].dependencies"),
        (exported(ROOT, pending=[{"type": "creating"}]), r"pending_operations\[0\]"),
        (exported(ROOT, pending={"a": 1}), "pending_operations is no list"),
    ],
)
def test_what_is_no_state_is_refused_and_the_place_named(data: bytes, message: str) -> None:
    with pytest.raises(DeploymentInvalidError, match=message):
        parse_deployment(data)


@given(st.data())
def test_what_stays_can_always_be_read_and_needs_nothing_that_went(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    resources = [
        resource(
            f"urn:{number}",
            dependencies=data.draw(st.lists(st.sampled_from([f"urn:{each}" for each in range(number)]), max_size=3))
            if number
            else [],
        )
        for number in range(count)
    ]
    unwanted = data.draw(st.sets(st.sampled_from([each["urn"] for each in resources])))
    before = parse_deployment(exported(*resources, pending=[{"resource": {"urn": "urn:x"}, "type": "creating"}]))
    after = without(before, unwanted)
    again = parse_deployment(json.dumps(after.document).encode())
    assert again.resources == after.resources
    assert again.pending == ()
    assert unwanted.isdisjoint(urns(again))
    kept = set(urns(again))
    # Nothing goes that neither was unwanted nor needs something that went.
    assert all(each.urn in kept or each.urn in unwanted or each.needs - kept for each in before.resources)
