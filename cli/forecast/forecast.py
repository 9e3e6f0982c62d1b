"""The forecast of one DecisionModel: everything a person wants to know before a manifest is applied. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from api.conditions import Reason
from api.keys import RETRY_ANNOTATION
from api.rollout import Strategy
from api.status import DecisionModelStatus, RevisionStatus
from cli.forecast.download import download_bytes
from cli.forecast.fields import FieldChange, changed_fields
from cli.forecast.gate import Gate, gate
from cli.forecast.needs import NeedsOverTime, needs_over_time
from cli.forecast.notes import notes
from cli.forecast.objects import ObjectChange, Rendered, changes, missing, rendered, rolled
from cli.forecast.rehearsal import Pass, rehearse
from cli.forecast.situation import UNKNOWN_DIGEST, Situation, acted_upon, facts_of
from cli.forecast.worst_case import WorstCase, worst_case
from components import names
from components.manifests import ObjectKey
from reconciler.engine.registry import ResolvedManifest
from reconciler.rollout import Facts, ResolutionFailed, Resolved, TagMissing

_NAMELESS: Final = "<revision>"
_NEXT_STEP: Final = "a preview has to reach the registry as the reconciler does, unless spec.digest pins the model"


class Outcome(StrEnum):
    """What applying a manifest comes to."""

    NOTHING = "Nothing"
    IN_PLACE = "InPlace"
    """The serving revision stays; its objects or the rules of its next rollout change."""
    NEW_REVISION = "NewRevision"
    REFUSED = "Refused"
    ERROR = "Error"
    """It could not be told."""


class Restart(StrEnum):
    """Whether Pods of the serving revision are replaced in place."""

    NONE = "None"
    ROLLING = "Rolling"
    OUTAGE = "Outage"
    """All of them stop before the first new one starts: their store can be mounted by one node only."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing of the kind happens: a reason of the API, and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What would happen.

    Attributes:
        outcome: In one word.
        refused: Why not, when it is refused or cannot be told.
        exists: Whether the DecisionModel is in the cluster already.
        fields: The declared fields that change.
        before: The revision that serves.
        after: The revision that the manifest asks for; None when that is not known.
        digest_known: False when `after` was made up without asking the registry.
        download: Bytes of the new revision's layers; None when they are not known, or nothing is downloaded.
        strategy: How a new revision takes over.
        restart: Whether the serving revision's Pods are replaced.
        objects: What becomes of the cluster's objects.
        needs: What is reserved meanwhile.
        gate: What a candidate has to pass.
        worst: How the rollout may end; None without one.
        notes: What else deserves attention.
        created: What would be created by the engine: names that must be free.
    """

    outcome: Outcome
    refused: Refused | None = None
    exists: bool = False
    fields: tuple[FieldChange, ...] = ()
    before: RevisionStatus | None = None
    after: RevisionStatus | None = None
    digest_known: bool = True
    download: int | None = None
    strategy: Strategy = Strategy.BLUE_GREEN
    restart: Restart = Restart.NONE
    objects: tuple[ObjectChange, ...] = ()
    needs: NeedsOverTime | None = None
    gate: Gate | None = None
    worst: WorstCase | None = None
    notes: tuple[str, ...] = ()
    created: tuple[ObjectKey, ...] = ()

    @property
    def is_rollout(self) -> bool:
        """Whether a revision is rolled out."""
        return self.outcome is Outcome.NEW_REVISION


def forecast(situation: Situation) -> Forecast:
    """Say what would happen if the manifest were applied now."""
    facts = facts_of(situation)
    passes = rehearse(facts)
    course = rendered(situation, passes)
    after = facts.resolution.revision if isinstance(facts.resolution, Resolved) else None
    fields = _fields(situation)
    blocked, rejected = _blocked(facts), _rejected(passes[0], after)
    outcome = _outcome(situation.model.status, after, fields, blocked, rejected)
    told = Forecast(
        outcome=outcome,
        refused=blocked or rejected if outcome in (Outcome.REFUSED, Outcome.ERROR) else None,
        exists=situation.live is not None,
        fields=fields,
        before=situation.model.status.stable_revision,
        after=after,
        digest_known=after is None or after.digest != UNKNOWN_DIGEST,
        strategy=situation.manifest.spec.rollout.effective_strategy,
        gate=gate(situation),
        notes=tuple(notes(situation, passes, after)),
    )
    if outcome not in (Outcome.IN_PLACE, Outcome.NEW_REVISION):
        return told
    return replace(
        told,
        download=_download(situation, after) if told.is_rollout else None,
        restart=_restart(situation, course),
        objects=_named(changes(situation, course), told),
        needs=needs_over_time(situation, course),
        worst=worst_case(facts, passes) if told.is_rollout else None,
        created=missing(situation, course),
    )


def _named(objects: tuple[ObjectChange, ...], told: Forecast) -> tuple[ObjectChange, ...]:
    """Return the objects without the name of a revision that only stands for the real one."""
    if told.digest_known or told.after is None:
        return objects
    return tuple(replace(each, name=each.name.replace(told.after.hash, _NAMELESS)) for each in objects)


def _fields(situation: Situation) -> tuple[FieldChange, ...]:
    before = None if situation.live is None else acted_upon(situation.live)
    return tuple(changed_fields(before, acted_upon(situation.model)))


def _blocked(facts: Facts) -> Refused | None:
    """Return why the reconciler would not act on the manifest as it stands."""
    resolution, stable = facts.resolution, facts.model.status.stable_revision
    if facts.conflict is not None:
        return Refused(Reason.RESOURCE_CONFLICT, facts.conflict)
    if facts.preflight is not None:
        return Refused(facts.preflight.reason, facts.preflight.message)
    if isinstance(resolution, TagMissing):
        return Refused(Reason.MODEL_NOT_FOUND, resolution.message)
    if isinstance(resolution, ResolutionFailed):
        return Refused(Reason.RESOLVE_FAILED, f"{resolution.message}; {_NEXT_STEP}")
    serves = isinstance(resolution, Resolved) and stable is not None and resolution.revision.hash == stable.hash
    if not facts.refusals or serves:
        return None
    return Refused(facts.refusals[0].reason, facts.refusals[0].message)


def _rejected(first: Pass, wanted: RevisionStatus | None) -> Refused | None:
    """Return the rejection of a revision that is not tried again by itself (spec section 5.7)."""
    failed = first.decision.status.failed_revision
    if failed is None or wanted is None or failed.hash != wanted.hash:
        return None
    message = f"{failed.message}; revision {failed.hash} was rejected before, {RETRY_ANNOTATION} tries it again"
    return Refused(failed.reason or Reason.REVISION_FAILED, message)


def _outcome(
    status: DecisionModelStatus,
    after: RevisionStatus | None,
    fields: tuple[FieldChange, ...],
    blocked: Refused | None,
    rejected: Refused | None,
) -> Outcome:
    if blocked is not None:
        return Outcome.ERROR if blocked.reason == Reason.RESOLVE_FAILED else Outcome.REFUSED
    if rejected is not None:
        # What was rejected stays rejected, whether the same manifest is applied once more or not.
        return Outcome.REFUSED if fields else Outcome.NOTHING
    known = (status.stable_revision, status.candidate_revision)
    if after is not None and all(each is None or each.hash != after.hash for each in known):
        return Outcome.NEW_REVISION
    return Outcome.IN_PLACE if fields else Outcome.NOTHING


def _download(situation: Situation, after: RevisionStatus | None) -> int | None:
    if after is None:
        return None
    sent = (situation.answer.content,) if isinstance(situation.answer, ResolvedManifest) else ()
    return download_bytes(after.digest, (*sent, *situation.kept.values()))


def _restart(situation: Situation, course: tuple[Rendered, ...]) -> Restart:
    """Return how the Pods that serve now are replaced in place, if they are."""
    stable = situation.model.status.stable_revision
    if stable is None:
        return Restart.NONE
    name = names.deployment(situation.model.metadata.name, stable.hash)
    replaced = [deployment for each in course for deployment in rolled(situation, each) if deployment.name == name]
    if not replaced:
        return Restart.NONE
    return Restart.OUTAGE if replaced[0].object["spec"]["strategy"]["type"] == "Recreate" else Restart.ROLLING
