"""Whole stacks: what is in them, in which order, and that equal values render equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from components.desired import DesiredRevision, DesiredStack
from components.errors import InvalidStackError
from components.manifests import MANAGED_KINDS, Manifest, ObjectKey, render
from tests.components.stacks import OWNER, PREFETCH, REVISION, SERVING, STORE, stack, stacks, thawed

CLAIM = ObjectKey("PersistentVolumeClaim", f"laya-store-{REVISION}")
JOB = ObjectKey("Job", f"laya-pf-{REVISION}")
DEPLOYMENT = ObjectKey("Deployment", f"laya-{REVISION}")
BUDGET = ObjectKey("PodDisruptionBudget", f"laya-{REVISION}")
SERVICE = ObjectKey("Service", "laya")


def dependencies(desired: DesiredStack) -> dict[ObjectKey, tuple[ObjectKey, ...]]:
    return {manifest.key: manifest.depends_on for manifest in render(desired)}


def test_each_object_comes_after_what_it_needs_and_the_service_after_everything_it_selects() -> None:
    assert list(dependencies(stack()).items()) == [
        (CLAIM, ()),
        (JOB, (CLAIM,)),
        (DEPLOYMENT, (CLAIM, JOB)),
        (BUDGET, (DEPLOYMENT,)),
        (SERVICE, (CLAIM, JOB, DEPLOYMENT, BUDGET)),
    ]


def test_what_is_not_desired_is_not_rendered() -> None:
    desired = stack(prefetch=None, serving=None, budget=False, selected=False)
    assert dependencies(desired) == {CLAIM: ()}
    assert render(DesiredStack(owner=OWNER)) == ()


def test_a_candidate_does_not_stand_in_the_way_of_the_service() -> None:
    other = DesiredRevision(hash="f" * 16, store=STORE, prefetch=PREFETCH, serving=SERVING)
    both = replace(stack(), revisions=(*stack().revisions, other))
    assert dependencies(both)[SERVICE] == dependencies(stack())[SERVICE]


def test_a_service_selects_a_revision_of_the_stack() -> None:
    with pytest.raises(InvalidStackError, match="ffffffffffffffff is not in it"):
        render(replace(stack(), selected="f" * 16))


def test_a_revision_is_listed_once() -> None:
    with pytest.raises(InvalidStackError, match="more than once"):
        render(replace(stack(), revisions=stack().revisions * 2))


@settings(max_examples=30)
@given(stacks())
def test_order_is_by_dependency(desired: DesiredStack) -> None:
    seen: set[ObjectKey] = set()
    for manifest in render(desired):
        assert seen.issuperset(manifest.depends_on)
        assert manifest.key not in seen
        seen.add(manifest.key)


@settings(max_examples=30)
@given(stacks())
def test_equal_values_render_equal_bytes(desired: DesiredStack) -> None:
    reordered = replace(desired, revisions=tuple(reversed(desired.revisions)))
    assert as_bytes(render(desired)) == as_bytes(render(reordered))


@settings(max_examples=30)
@given(stacks())
def test_every_object_is_identified_labelled_owned_and_annotated(desired: DesiredStack) -> None:
    for manifest in render(desired):
        metadata = manifest.object["metadata"]
        assert manifest.kind == manifest.object["kind"]
        assert manifest.kind in MANAGED_KINDS
        assert (manifest.name, desired.owner.namespace) == (metadata["name"], metadata["namespace"])
        assert metadata["labels"]["decisionmodel.io/name"] == desired.owner.name
        assert [reference["uid"] for reference in metadata["ownerReferences"]] == [desired.owner.uid]
        assert metadata["annotations"].items() >= {
            ("pulumi.com/skipAwait", "true"),
            ("pulumi.com/patchFieldManager", "decisionmodel-stack"),
            ("pulumi.com/patchForce", "true"),
        }


@settings(max_examples=30)
@given(stacks())
def test_objects_are_plain_json(desired: DesiredStack) -> None:
    for manifest in render(desired):
        assert json.loads(json.dumps(manifest.object)) == thawed(manifest.object)


def as_bytes(manifests: tuple[Manifest, ...]) -> bytes:
    return json.dumps([[manifest.object, manifest.depends_on] for manifest in manifests]).encode()
