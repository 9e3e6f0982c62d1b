"""What became of a DecisionModel's objects between two looks, in the terms in which a preview predicts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cli.forecast import Forecast
from cli.forecast.objects import Action
from components.subset import differing_paths

Object = Mapping[str, Any]

KINDS = ("PersistentVolumeClaim", "Job", "Deployment", "PodDisruptionBudget", "Service", "ConfigMap")
"""The kinds that a preview speaks of."""


class Happening(NamedTuple):
    """What happens to one object; `paths` of a change only."""

    action: str
    kind: str
    name: str
    paths: frozenset[str] = frozenset()


Snapshot = dict[tuple[str, str], dict[str, Any]]
"""What objects declare, by kind and name."""


def snapshot(objects: Iterable[Object]) -> Snapshot:
    """Return objects of `KINDS` without what only the cluster writes."""
    return {(obj["kind"], obj["metadata"]["name"]): _declared(obj) for obj in objects if obj["kind"] in KINDS}


def happenings(before: Snapshot, after: Snapshot) -> set[Happening]:
    """Return the differences."""
    return {
        *(Happening(Action.CREATE, *key) for key in {*after} - {*before}),
        *(Happening(Action.DELETE, *key) for key in {*before} - {*after}),
        *_changes(before, after),
    }


def predicted(told: Forecast) -> set[Happening]:
    """Return what a forecast says becomes of objects."""
    return {Happening(each.action, each.kind, each.name, frozenset(each.paths)) for each in told.objects}


def predicted_in_json(told: Object) -> set[Happening]:
    """Return the same of one model in a preview's JSON."""
    return {Happening(each["action"], each["kind"], each["name"], frozenset(each["paths"])) for each in told["objects"]}


def _changes(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for key in {*before} & {*after}:
        old, new = before[key], after[key]
        if paths := frozenset((*differing_paths(old, new), *differing_paths(new, old))):
            yield Happening(Action.CHANGE, *key, paths)


def _declared(obj: Object) -> dict[str, Any]:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    ours = {key: value for key, value in annotations.items() if not key.partition("/")[0].endswith("kubernetes.io")}
    return {"metadata": {"labels": metadata.get("labels") or {}, "annotations": ours}, "spec": obj.get("spec") or {}}
