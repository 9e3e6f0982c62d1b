"""Which objects of the cluster a rollout creates, changes and deletes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from api.conditions import EventReason
from cli.forecast.rehearsal import Pass
from cli.forecast.situation import Situation
from components import names
from components.desired import DesiredStack
from components.drift import Cause, Drift, find_drift
from components.manifests import Manifest, ObjectKey, render
from reconciler.controller.credentials import ApiKey
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.revisions import known_hashes
from reconciler.rollout import StackPlan

_UNKNOWN_KEY: Final = ApiKey(value="", checksum="unknown", legacy_checksum="unknown")
"""Stands for a key that was not read: its checksum is another one than whatever is recorded."""


class Action(StrEnum):
    """What happens to an object."""

    CREATE = "Create"
    CHANGE = "Change"
    DELETE = "Delete"


_ACTIONS: Final[Mapping[Cause, Action]] = {
    Cause.MISSING: Action.CREATE,
    Cause.CHANGED: Action.CHANGE,
    Cause.ADDED: Action.CHANGE,
    Cause.UNEXPECTED: Action.DELETE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """What happens to one object; `paths` of a change only.

    `during` is the phase of the rollout in which it does, `Promoted`, or `Stabilized` when the old revision goes.
    """

    action: Action
    kind: str
    name: str
    during: str
    paths: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """What identifies the object."""
        return ObjectKey(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A pass, and the stack's objects after it; `manifests` is None where the pass leaves the cluster as it is."""

    at: Pass
    during: str
    manifests: tuple[Manifest, ...] | None


def rendered(situation: Situation, passes: tuple[Pass, ...]) -> tuple[Rendered, ...]:
    """Render what every pass asks for."""
    return tuple(_render(situation, each, _moment(passes[: number + 1])) for number, each in enumerate(passes))


def changes(situation: Situation, course: tuple[Rendered, ...]) -> tuple[ObjectChange, ...]:
    """Return what becomes of every object that is another one in the end, in the order in which it begins."""
    found: dict[ObjectKey, ObjectChange] = {}
    for change in (*_kept(situation, course), *_of_stack(situation, course), *_dropped(situation, course)):
        earlier = found.setdefault(change.key, change)
        if change.action is Action.DELETE:
            # What is stopped or no longer selected before it goes is told by its end.
            found[change.key] = change
        elif earlier.action is Action.CHANGE:
            found[change.key] = replace(earlier, paths=tuple(dict.fromkeys((*earlier.paths, *change.paths))))
    return tuple(found.values())


def missing(situation: Situation, course: Iterable[Rendered]) -> tuple[ObjectKey, ...]:
    """Return kind and name of everything that would be created: names that might be taken by another's object."""
    absent = (ObjectKey(each.kind, each.name) for _, each in _drifts(situation, course) if each.cause is Cause.MISSING)
    return tuple(dict.fromkeys(absent))


def rolled(situation: Situation, each: Rendered) -> tuple[Manifest, ...]:
    """Return the Deployments that exist and whose Pods a pass replaces, because their template changes."""
    live = situation.children.of_stack()
    drifts = find_drift(each.manifests or (), live, situation.model.metadata.uid)
    replaced = {drift.name for drift in drifts if drift.kind == "Deployment" and _concerns_pods(drift)}
    return tuple(one for one in each.manifests or () if one.kind == "Deployment" and one.name in replaced)


def _concerns_pods(drift: Drift) -> bool:
    return drift.cause in (Cause.CHANGED, Cause.ADDED) and drift.path.startswith("spec.template")


def _render(situation: Situation, each: Pass, during: str) -> Rendered:
    plan = each.decision.stack
    return Rendered(each, during, None if plan is None else render(_desired(situation, plan)))


def _moment(so_far: tuple[Pass, ...]) -> str:
    """Return what people call the time of the last of these passes."""
    status, before = so_far[-1].decision.status, so_far[0].facts.model.status.stable_revision
    stable = status.stable_revision
    if stable is None or (before is not None and stable.hash == before.hash):
        return str(status.phase or "")
    watched = any(each.decision.status.previous_revision is not None for each in so_far)
    over = watched and status.previous_revision is None
    return str(EventReason.STABILIZED if over else EventReason.PROMOTED)


def _desired(situation: Situation, plan: StackPlan) -> DesiredStack:
    around = Surroundings(
        settings=situation.settings,
        children=situation.children,
        seeded=situation.seeded,
        api_key=_UNKNOWN_KEY if _other_key(situation) else None,
    )
    return desired_stack(situation.model, plan, around)


def _other_key(situation: Situation) -> bool:
    """Whether the manifest names another API key than before; one that stays keeps its recorded checksum."""
    reference = situation.manifest.spec.auth.api_key_secret_ref
    before = None if situation.live is None else situation.live.spec.auth.api_key_secret_ref
    return reference is not None and reference != before


def _drifts(situation: Situation, course: Iterable[Rendered]) -> Iterator[tuple[str, Drift]]:
    """Yield how every pass's stack differs from the cluster as it is now, with the time of the pass."""
    uid, live = situation.model.metadata.uid, situation.children.of_stack()
    for each in course:
        if each.manifests is not None:
            yield from ((each.during, drift) for drift in find_drift(each.manifests, live, uid))


def _of_stack(situation: Situation, course: tuple[Rendered, ...]) -> Iterator[ObjectChange]:
    lasting = _lasting(course)
    for during, drift in _drifts(situation, course):
        action = _ACTIONS.get(drift.cause)
        if action is not None and (action is not Action.CREATE or ObjectKey(drift.kind, drift.name) in lasting):
            paths = (drift.path,) if action is Action.CHANGE else ()
            yield ObjectChange(action=action, kind=drift.kind, name=drift.name, during=during, paths=paths)


def _lasting(course: tuple[Rendered, ...]) -> frozenset[ObjectKey]:
    """Return what there is in the end: a second replica gives the old revision a budget that goes with it."""
    last = next((each.manifests for each in reversed(course) if each.manifests is not None), ())
    return frozenset(manifest.key for manifest in last)


def _kept(situation: Situation, course: tuple[Rendered, ...]) -> Iterator[ObjectChange]:
    """Yield the manifests that the reconciler keeps itself, outside the stack."""
    statuses = (each.at.decision.status for each in course)
    begun = {status.candidate_revision.hash for status in statuses if status.candidate_revision is not None}
    for revision in sorted(begun & situation.seeded - set(situation.kept)):
        yield _config_map(Action.CREATE, situation, revision, course[0])


def _dropped(situation: Situation, course: tuple[Rendered, ...]) -> Iterator[ObjectChange]:
    """Yield the manifests that nobody needs any more, and a claim that grows: the reconciler's own writes as well."""
    gone = set(known_hashes(situation.model.status)) - set(known_hashes(course[-1].at.decision.status))
    for revision in sorted(gone & set(situation.kept)):
        yield _config_map(Action.DELETE, situation, revision, course[-1])
    for each in course:
        if (growth := each.at.decision.growth) is not None:
            claim = names.store(situation.model.metadata.name, growth.revision)
            yield ObjectChange(
                action=Action.CHANGE,
                kind="PersistentVolumeClaim",
                name=claim,
                during=each.during,
                paths=("spec.resources.requests.storage",),
            )


def _config_map(action: Action, situation: Situation, revision: str, at: Rendered) -> ObjectChange:
    name = names.manifest_config_map(situation.model.metadata.name, revision)
    return ObjectChange(action=action, kind="ConfigMap", name=name, during=at.during)
