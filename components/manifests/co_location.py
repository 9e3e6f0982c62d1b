"""Keeping a revision's Pods on one node, where only one node can mount their store.

A required term holds Pods back that could not mount the store where they would go. But it binds a replacement to the
node of any Pod that is still there, be that node dead or drained, so it is rendered only for several replicas. A
preferred term draws a second Pod to the first one and binds nothing; one replica has it from the start, since adding
any term later would change the Pod template and restart what serves.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from components.desired import CoLocation, JsonObject, Store, is_shareable

_HOSTNAME_KEY: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_HIGHEST_WEIGHT: Final = 100
_ONE_POD: Final = "ReadWriteOncePod"


def co_location_for(replicas: int) -> CoLocation:
    """Return how a new Deployment of so many replicas is kept on one node."""
    return CoLocation.REQUIRED if replicas > 1 else CoLocation.PREFERRED


def co_location_term(labels: JsonObject) -> dict[str, Any]:
    """Return the affinity term that means the node of the Pods with `labels`."""
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": _HOSTNAME_KEY}


def with_co_location(
    affinity: JsonObject | None, labels: JsonObject, store: Store, co_location: CoLocation
) -> JsonObject | None:
    """Return `affinity` with the term of `co_location` added, unchanged where every node can mount the store."""
    term = _TERMS[co_location](labels)
    if term is None or store.shareable:
        return affinity
    return _with_term(affinity, *term)


def drawn_to(affinity: JsonObject | None, labels: JsonObject) -> JsonObject:
    """Return `affinity` with a preference for the node of the Pods with `labels`."""
    return _with_term(affinity, *_preferred(labels))


def co_location_of(affinity: JsonObject | None, labels: JsonObject) -> CoLocation:
    """Return which of the terms `affinity` holds."""
    pod_affinity = (affinity or {}).get("podAffinity") or {}
    for co_location, make in _TERMS.items():
        term = make(labels)
        if term is not None and term[1] in (pod_affinity.get(term[0]) or ()):
            return co_location
    return CoLocation.NONE


def without_co_location(affinity: JsonObject | None, labels: JsonObject) -> dict[str, Any] | None:
    """Return `affinity` as the user gave it: the inverse of `with_co_location`, harmless where that was not used."""
    remaining = dict(affinity or {})
    pod_affinity = dict(remaining.pop("podAffinity", None) or {})
    for field, ours in ((_REQUIRED, _required(labels)[1]), (_PREFERRED, _preferred(labels)[1])):
        terms = [other for other in pod_affinity.pop(field, None) or () if other != ours]
        pod_affinity |= {field: terms} if terms else {}
    if pod_affinity:
        remaining["podAffinity"] = pod_affinity
    return remaining or None


def unschedulable(replicas: int, access_modes: Collection[str], affinity: JsonObject | None) -> str:
    """Return why so many new Pods can never all run, and what to do about it; empty where nothing stands against it.

    Beside a required term of the user's the required term can never hold. The scheduler lets a first Pod pass a term
    that only its own kind can meet as long as no Pod meets any of them; where the user's Pods are, one does.
    """
    if replicas <= 1 or is_shareable(access_modes):
        return ""
    shared = "add ReadWriteMany to spec.cache.accessModes, or set spec.replicas to 1"
    if set(access_modes) == {_ONE_POD}:
        return f"spec.replicas is {replicas}, and only one Pod can mount a store that is {_ONE_POD}; {shared}"
    if ((affinity or {}).get("podAffinity") or {}).get(_REQUIRED):
        return (
            f"spec.replicas is {replicas}, only one node can mount the store, and beside what"
            " spec.scheduling.affinity.podAffinity requires the Pods can never be required to share it;"
            f" {shared}, or make that affinity a preferred one"
        )
    return ""


def _with_term(affinity: JsonObject | None, field: str, term: JsonObject) -> JsonObject:
    pod_affinity = dict((affinity or {}).get("podAffinity") or {})
    return {**(affinity or {}), "podAffinity": {**pod_affinity, field: [*(pod_affinity.get(field) or ()), term]}}


def _required(labels: JsonObject) -> tuple[str, dict[str, Any]]:
    return _REQUIRED, co_location_term(labels)


def _preferred(labels: JsonObject) -> tuple[str, dict[str, Any]]:
    return _PREFERRED, {"weight": _HIGHEST_WEIGHT, "podAffinityTerm": co_location_term(labels)}


def _none(_: JsonObject) -> None:
    return None


_TERMS: Final = {CoLocation.REQUIRED: _required, CoLocation.PREFERRED: _preferred, CoLocation.NONE: _none}
