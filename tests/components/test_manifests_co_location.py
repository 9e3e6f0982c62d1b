"""Which Pods are kept on one node, and by what."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.desired import CoLocation, Placement, Store
from components.manifests import co_location_for, unschedulable
from components.manifests.co_location import (
    co_location_of,
    with_co_location,
    without_co_location,
)
from tests.components.stacks import LABELS, SHARED_STORE, STORE, placements, serving_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SAME_NODE = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
DRAWN = {"weight": 100, "podAffinityTerm": SAME_NODE}
USERS_TERM = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
USERS = {"nodeAffinity": {"a": 1}, "podAffinity": {REQUIRED: [USERS_TERM]}}


@pytest.mark.parametrize(
    ("store", "co_location", "affinity"),
    [
        (STORE, CoLocation.REQUIRED, {"podAffinity": {REQUIRED: [SAME_NODE]}}),
        (STORE, CoLocation.PREFERRED, {"podAffinity": {PREFERRED: [DRAWN]}}),
        (STORE, CoLocation.NONE, None),
        (
            replace(STORE, access_modes=("ReadWriteOncePod",)),
            CoLocation.PREFERRED,
            {"podAffinity": {PREFERRED: [DRAWN]}},
        ),
        (SHARED_STORE, CoLocation.REQUIRED, None),
        (SHARED_STORE, CoLocation.PREFERRED, None),
    ],
)
def test_pods_share_a_node_where_only_one_can_mount_their_store(
    store: Store, co_location: CoLocation, affinity: dict[str, Any] | None
) -> None:
    assert serving_pod(store=store, co_location=co_location).get("affinity") == affinity


def test_one_replica_is_bound_to_nothing() -> None:
    """A required term would hold its replacement back until the Pod on a dead node is gone."""
    assert co_location_for(1) is CoLocation.PREFERRED
    assert {co_location_for(replicas) for replicas in (2, 3, 100)} == {CoLocation.REQUIRED}


@pytest.mark.parametrize(
    ("co_location", "pod_affinity"),
    [
        (CoLocation.REQUIRED, {REQUIRED: [USERS_TERM, SAME_NODE]}),
        (CoLocation.PREFERRED, {REQUIRED: [USERS_TERM], PREFERRED: [DRAWN]}),
    ],
)
def test_a_term_is_added_to_the_users_affinity_without_changing_it(
    co_location: CoLocation, pod_affinity: dict[str, Any]
) -> None:
    before = json.dumps(USERS)
    affinity = serving_pod(co_location=co_location, placement=Placement(affinity=USERS))["affinity"]
    assert affinity == {"nodeAffinity": {"a": 1}, "podAffinity": pod_affinity}
    assert json.dumps(USERS) == before


@given(placements, st.sampled_from(CoLocation))
def test_a_term_is_recognised_and_can_be_taken_out_again(placement: Placement, co_location: CoLocation) -> None:
    affinity = with_co_location(placement.affinity, LABELS, STORE, co_location)
    assert co_location_of(affinity, LABELS) is co_location
    assert without_co_location(affinity, LABELS) == placement.affinity
    assert without_co_location(placement.affinity, LABELS) == placement.affinity


ONE_POD = replace(STORE, access_modes=("ReadWriteOncePod",))


@pytest.mark.parametrize(
    ("replicas", "store", "affinity", "told"),
    [
        (2, STORE, None, ""),
        (2, STORE, {"podAffinity": {PREFERRED: [DRAWN], REQUIRED: []}}, ""),
        (2, STORE, {"podAntiAffinity": {REQUIRED: [USERS_TERM]}}, ""),
        (1, STORE, USERS, ""),
        (2, SHARED_STORE, USERS, ""),
        (1, ONE_POD, None, ""),
        (2, STORE, USERS, "spec.scheduling.affinity.podAffinity requires"),
        (3, ONE_POD, None, "only one Pod can mount"),
        (3, ONE_POD, USERS, "only one Pod can mount"),
    ],
)
def test_what_can_never_be_scheduled_is_told_with_what_to_do(
    replicas: int, store: Store, affinity: dict[str, Any] | None, told: str
) -> None:
    message = unschedulable(replicas, store.access_modes, affinity)
    assert bool(message) is bool(told)
    assert told in message
    assert not told or ("spec.cache.accessModes" in message and f"spec.replicas is {replicas}" in message)
