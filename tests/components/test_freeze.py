"""What a running revision keeps (spec sections 4.5 and 5.10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from components.desired import CoLocation, EnvironmentVariable, Placement, Serving, Store
from components.drift import find_drift
from components.freeze import freeze_serving, freeze_store, freeze_template, grows
from components.manifests import Manifest, render
from tests.components.stacks import LABELS, OWNER, SERVING, STORE, live, servings, stack, stores

REGISTRY = EnvironmentVariable(name="OLLAYA_REGISTRY", value="https://registry.example/$x")
OTHER_REGISTRY = EnvironmentVariable(name="OLLAYA_REGISTRY", value="https://other.example")


def manifest(kind: str, serving: Serving = SERVING, store: Store = STORE) -> Manifest:
    (found,) = [each for each in render(stack(serving=serving, store=store)) if each.kind == kind]
    return found


def live_deployment(serving: Serving = SERVING) -> dict[str, Any]:
    return live(manifest("Deployment", serving))


def test_placement_and_resources_stay_whatever_the_defaults_are_now() -> None:
    old = replace(SERVING, resources={"limits": {"cpu": "1"}}, placement=Placement(node_selector={"disk": "ssd"}))
    new = replace(SERVING, image="new", replicas=3, resources={"limits": {"cpu": "9"}}, placement=Placement())
    frozen = freeze_serving(new, live_deployment(old))
    assert frozen == replace(new, resources=old.resources, placement=old.placement, environment=frozen.environment)


def test_resources_and_placement_that_never_were_stay_away() -> None:
    bare = replace(SERVING, resources={})
    new = replace(SERVING, placement=Placement(runtime_class_name="nvidia", tolerations=({"key": "gpu"},)))
    frozen = freeze_serving(new, live_deployment(bare))
    assert (frozen.resources, frozen.placement) == ({}, Placement())


@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.parametrize("after", [1, 2])
def test_scaling_changes_nothing_but_the_replicas(before: int, after: int) -> None:
    running = replace(SERVING, replicas=before, placement=Placement(affinity={"nodeAffinity": {"a": 1}}))
    assert freeze_serving(replace(SERVING, replicas=after), live_deployment(running)) == replace(
        running, replicas=after
    )


@pytest.mark.parametrize("co_location", CoLocation)
@pytest.mark.parametrize("after", [1, 2])
def test_what_keeps_pods_on_one_node_stays_what_it_was(co_location: CoLocation, after: int) -> None:
    running = live_deployment(replace(SERVING, co_location=co_location))
    assert freeze_serving(replace(SERVING, replicas=after), running).co_location is co_location


@pytest.mark.parametrize("recorded", [(), (REGISTRY,)])
@pytest.mark.parametrize("wanted", [(), (OTHER_REGISTRY,)])
def test_the_registry_stays_what_it_was(
    recorded: tuple[EnvironmentVariable, ...], wanted: tuple[EnvironmentVariable, ...]
) -> None:
    running = replace(SERVING, environment=(*SERVING.environment, *recorded))
    frozen = freeze_serving(replace(SERVING, environment=(*wanted, *SERVING.environment)), live_deployment(running))
    assert set(frozen.environment) == {*SERVING.environment, *recorded}


def test_a_deployment_without_its_container_freezes_only_the_placement() -> None:
    running = live_deployment(replace(SERVING, placement=Placement(node_selector={"a": "b"})))
    running["spec"]["template"]["spec"]["containers"][0]["name"] = "renamed"
    assert freeze_serving(SERVING, running) == replace(SERVING, placement=Placement(node_selector={"a": "b"}))


@settings(max_examples=40)
@given(servings)
def test_freezing_what_was_just_rendered_changes_nothing(serving: Serving) -> None:
    rendered = manifest("Deployment", serving)
    frozen = manifest("Deployment", freeze_serving(serving, live(rendered)))
    assert frozen == rendered


def test_a_frozen_template_lets_only_the_replicas_change() -> None:
    running = live_deployment(replace(SERVING, template_api_key_checksum="aa"))
    pod = running["spec"]["template"]
    pod["spec"]["schedulerName"] = "default-scheduler"
    pod["metadata"]["creationTimestamp"] = None
    pod["metadata"]["annotations"] |= {"kubectl.kubernetes.io/restartedAt": "now", "example.com/of-the-spec": "x"}
    changed = replace(SERVING, image="new", replicas=2, resources={}, template_api_key_checksum="bb")

    desired = manifest("Deployment", freeze_template(changed, running))

    assert desired.object["spec"]["replicas"] == 2
    template = desired.object["spec"]["template"]
    assert template["spec"] == pod["spec"]
    # Left out, an annotation that the spec once asked for would be removed, and the Pods with it.
    kept = {"decisionmodel.io/apikey-checksum": "aa", "example.com/of-the-spec": "x"}
    assert template["metadata"] == {"labels": LABELS, "annotations": kept}
    paths = {drift.path for drift in find_drift([desired], [running], OWNER.uid)}
    assert paths == {"spec.replicas", "metadata.annotations[decisionmodel.io/spec-hash]"}


@pytest.mark.parametrize(
    ("live_size", "wanted", "size"), [("10Gi", "20Gi", "20Gi"), ("10Gi", "5Gi", "10Gi"), ("1Gi", "1024Mi", "1Gi")]
)
def test_a_store_only_grows(live_size: str, wanted: str, size: str) -> None:
    claim = live(manifest("PersistentVolumeClaim", store=replace(STORE, size=live_size)))
    assert freeze_store(replace(STORE, size=wanted), claim).size == size


def test_a_store_keeps_its_modes_and_class() -> None:
    claim = live(manifest("PersistentVolumeClaim"))
    claim["spec"]["storageClassName"] = "standard"
    wanted = replace(STORE, access_modes=("ReadWriteMany",), storage_class_name="fast", recovering=True)
    frozen = freeze_store(wanted, claim)
    assert frozen == replace(STORE, storage_class_name="standard", recovering=True)
    assert not frozen.shareable


@settings(max_examples=40)
@given(stores)
def test_freezing_a_store_that_is_as_wanted_changes_nothing(store: Store) -> None:
    assert freeze_store(store, live(manifest("PersistentVolumeClaim", store=store))) == store


@pytest.mark.parametrize(
    ("old", "new", "larger"),
    [("10Gi", "11Gi", True), ("10Gi", "10240Mi", False), ("1G", "1Gi", True), ("10Gi", "lots", False)],
)
def test_growth_is_by_value(old: str, new: str, *, larger: bool) -> None:
    assert grows(old, new) is larger
