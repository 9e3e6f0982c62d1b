"""`kubectl delete --cascade=orphan` and creating again: what was ours is taken over, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from api.keys import STACK_FIELD_MANAGER
from components.desired import Owner
from reconciler.controller.adoption import Adopter, is_left
from reconciler.controller.observation import Children
from reconciler.controller.watched import BUDGETS, CLAIMS, DEPLOYMENTS, JOBS, SERVICES
from reconciler.kernel.resources import ObjectKey
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
KINDS = (CLAIMS, JOBS, DEPLOYMENTS, BUDGETS, SERVICES)


def leave(bed: Bed, change: Callable[[Object], object] = lambda _: None) -> None:
    """Delete the DecisionModel as the garbage collector does where its dependents are orphaned."""

    def orphan(obj: Object) -> None:
        del obj["metadata"]["ownerReferences"]
        obj["metadata"]["managedFields"] = [{"manager": STACK_FIELD_MANAGER, "operation": "Apply"}]
        change(obj)

    for resource in KINDS:
        for obj in bed.objects(resource):
            bed.edit(resource, obj["metadata"]["name"], orphan)
    bed.delete()


def uids(bed: Bed) -> dict[str, str]:
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for kind in KINDS for obj in bed.objects(kind)}


async def test_what_was_left_is_taken_over_and_serves_on(bed: Bed) -> None:
    revision = await bed.rolled_out()
    before = uids(bed)
    await bed.kill()
    leave(bed)
    bed.declare()
    bed.start()
    await bed.settle()
    await bed.advance(61)

    assert uids(bed) == before, "nothing is made anew"
    owner = bed.model.metadata.uid
    assert {obj["metadata"]["ownerReferences"][0]["uid"] for kind in KINDS for obj in bed.objects(kind)} == {owner}
    assert bed.selected == revision
    assert bed.status.phase == "Ready"


def own_it(obj: Object) -> None:
    obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]


def made_by_hand(obj: Object) -> None:
    obj["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply"}]


def updated_under_our_name(obj: Object) -> None:
    obj["metadata"]["managedFields"][0]["operation"] = "Update"


def without_labels(obj: Object) -> None:
    obj["metadata"]["labels"] = {}


@pytest.mark.parametrize("change", [own_it, made_by_hand, updated_under_our_name, without_labels])
async def test_what_does_not_prove_whose_it_was_stays_as_it_is(bed: Bed, change: Callable[[Object], object]) -> None:
    revision = await bed.rolled_out()
    await bed.kill()
    leave(bed, change)
    left = {name: bed.get(kind, name) for kind in KINDS for name in (o["metadata"]["name"] for o in bed.objects(kind))}
    bed.declare()
    bed.start()
    await bed.settle()
    await bed.advance(61)

    assert {name: bed.get(kind, name) for kind in KINDS for name in left if has(bed, kind, name)} == left
    status, reason, message = bed.condition("Degraded")
    assert (status, reason) == ("True", "ResourceConflict")
    assert f"kubectl delete persistentvolumeclaim router-store-{revision} -n default" in message


def has(bed: Bed, resource: Any, name: str) -> bool:
    return any(obj["metadata"]["name"] == name for obj in bed.objects(resource))


@pytest.mark.parametrize("name", ["router", "foreign", "router-0123456789abcdee", "router-x"])
def test_a_label_alone_is_no_proof(name: str) -> None:
    labels = {"decisionmodel.io/name": "router", "decisionmodel.io/revision": "0123456789abcdef"}
    managed = [{"manager": STACK_FIELD_MANAGER, "operation": "Apply"}]
    obj = {"metadata": {"name": name, "labels": labels, "managedFields": managed}}
    assert not is_left(obj, DEPLOYMENTS, "router")
    obj["metadata"]["name"] = "router-0123456789abcdef"
    assert is_left(obj, DEPLOYMENTS, "router")
    assert not is_left(obj, DEPLOYMENTS, "another")


async def test_an_object_that_somebody_changes_again_and_again_is_remembered_once() -> None:
    labels = {"decisionmodel.io/name": "router", "decisionmodel.io/revision": "0123456789abcdef"}
    metadata: Object = {"name": "router-0123456789abcdef", "namespace": "default", "uid": "theirs", "labels": labels}
    asked: list[str] = []

    class Theirs:
        """The cluster with one Deployment, which is somebody else's."""

        def children_of(self, _: ObjectKey) -> Children:
            return Children(deployments=({"metadata": metadata},))

        async def get(self, _: Any, __: str, name: str) -> Object:
            asked.append(name)
            return {"metadata": metadata}

    adopter = Adopter(cast("Any", Theirs()), cast("Any", Theirs()))
    for version in range(50):
        metadata["resourceVersion"] = str(version)
        for _ in range(2):
            assert not await adopter.adopt(Owner(namespace="default", name="router", uid="u"))
    assert len(asked) == 50, "each version is asked about once"
    assert sum(map(len, adopter._refused.values())) == 1
