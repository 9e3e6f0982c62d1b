"""Whoever sets another member of a union loses it again, in the write that brings ours back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from components.desired import DesiredStack
from components.manifests import render
from components.rivals import restored
from components.subset import differing_paths
from tests.components.stacks import SERVING, live, stack, stacks

Edit = Callable[[dict[str, Any]], object]
KEYED = stack(serving=replace(SERVING, template_api_key_checksum="aa"))


def container(obj: dict[str, Any]) -> Any:
    return obj["spec"]["template"]["spec"]["containers"][0]


def roll_in_place(obj: dict[str, Any]) -> None:
    """As the API server fills it in after a patch of the type."""
    limits = {"maxSurge": "25%", "maxUnavailable": "25%"}
    obj["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}


def probe_by_command(obj: dict[str, Any]) -> None:
    probe = container(obj)["livenessProbe"]
    del probe["httpGet"]
    probe["exec"] = {"command": ["true"]}


def keep_the_store_in_memory(obj: dict[str, Any]) -> None:
    for volume in obj["spec"]["template"]["spec"]["volumes"]:
        if volume.pop("persistentVolumeClaim", None):
            volume["emptyDir"] = {}


def refer_for_a_value(obj: dict[str, Any]) -> None:
    variable = container(obj)["env"][1]
    del variable["value"]
    variable["valueFrom"] = {"configMapKeyRef": {"name": "theirs", "key": "value"}}


def show_the_key(obj: dict[str, Any]) -> None:
    """As `kubectl set env` does."""
    variable = container(obj)["env"][0]
    del variable["valueFrom"]
    variable["value"] = "in the open"


def ask_for_a_minimum(obj: dict[str, Any]) -> None:
    del obj["spec"]["maxUnavailable"]
    obj["spec"]["minAvailable"] = 1


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("Deployment", roll_in_place),
        ("Deployment", probe_by_command),
        ("Deployment", keep_the_store_in_memory),
        ("Deployment", refer_for_a_value),
        ("Deployment", show_the_key),
        ("PodDisruptionBudget", ask_for_a_minimum),
    ],
)
def test_ours_comes_back_in_the_place_of_theirs(kind: str, edit: Edit) -> None:
    (manifest,) = (each for each in render(KEYED) if each.kind == kind)
    declared, edited = live(manifest), live(manifest)
    edit(edited)
    edited["spec"]["theirs"] = "stays"
    before = copy.deepcopy(edited)
    assert restored(manifest.object, edited) == {**declared, "spec": {**declared["spec"], "theirs": "stays"}}
    assert edited == before


@settings(max_examples=25)
@given(stacks())
def test_nothing_is_written_where_no_union_has_another_member(desired: DesiredStack) -> None:
    for manifest in render(desired):
        assert restored(manifest.object, live(manifest)) is None


MEMBERS = {
    "value": "valueFrom",
    "secretKeyRef": "configMapKeyRef",
    "httpGet": "exec",
    "maxUnavailable": "minAvailable",
    "persistentVolumeClaim": "emptyDir",
    "emptyDir": "hostPath",
    "configMap": "secret",
}


def unions(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every place in an object where another member of a union could be, and the member that is there."""
    if isinstance(value, dict):
        # Limits of a rolling update, which stand beside each other, are no union.
        yield from ((value, key) for key in MEMBERS if key in value and "maxSurge" not in value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from unions(each)


@settings(max_examples=50)
@given(stacks(), st.data())
def test_whatever_is_replaced_anywhere_comes_back(desired: DesiredStack, data: st.DataObject) -> None:
    possible = [each for each in render(desired) if [*unions(live(each)["spec"])]]
    assume(possible)
    manifest = data.draw(st.sampled_from(possible))
    edited = live(manifest)
    places = [*unions(edited["spec"])]
    chosen = data.draw(st.lists(st.sampled_from(range(len(places))), min_size=1, unique=True))
    for number in chosen:
        holder, member = places[number]
        del holder[member]
        holder[MEMBERS[member]] = {}
    changed = restored(manifest.object, edited)
    assert changed is not None
    assert not [*differing_paths(manifest.object["spec"], changed["spec"])]
    assert not [member for holder, member in unions(changed["spec"]) if MEMBERS[member] in holder]
