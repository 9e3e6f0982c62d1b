"""Upkeep of the revision that serves: its plan, its health, and what people are told about it (spec section 5.14)."""

from __future__ import annotations

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.status import ReplicaStatus, RevisionStatus
from components import names
from reconciler.rollout import timing
from reconciler.rollout.cache_guard import guard_cache
from reconciler.rollout.decision import Decision, ReadyPods, RevisionPlan, StackPlan
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import PrefetchState, StoreState
from reconciler.rollout.obstacle import Cause, cause_of
from reconciler.rollout.recreate import is_stable_stopped, is_stopped
from reconciler.rollout.retention import kept_revision, needed_pods, selected_record, stand_in
from reconciler.rollout.store_recovery import (
    bears_mark,
    is_withheld,
    may_start_pods,
    needs_prefetch,
    tend_store,
    waits_for_store,
)

_SHORTAGES = (Reason.REPLICAS_NOT_MODEL_READY, Reason.NO_MODEL_READY_PODS)


def serving_plan(draft: Draft, revision: RevisionStatus) -> RevisionPlan:
    """Plan a revision that has proved itself: it serves, and its Job runs again only to refill a lost store."""
    facts = draft.facts.of(revision)
    return RevisionPlan(
        revision=revision,
        prefetch=needs_prefetch(draft, revision),
        serve=may_start_pods(facts),
        stopped=is_stopped(draft, revision) or waits_for_store(facts),
        recovering=bears_mark(facts),
        withheld=is_withheld(facts),
        disruption_budget=draft.stable is not None and revision.hash == draft.stable.hash and draft.spec.replicas > 1,
    )


def stack_plan(draft: Draft, *candidates: RevisionPlan) -> StackPlan:
    """Plan the stack: the stable, what the window or the live Service still needs, and the given candidates.

    Whatever else was decided, what the live Service selects is never dropped.

    A recorded candidate that is not among these goes no further, and keeps what it has.
    """
    revisions = list(candidates or _as_it_is(draft))
    if draft.stable is not None:
        revisions.insert(0, serving_plan(draft, draft.stable))
    for kept in (kept_revision(draft), selected_record(draft.facts)):
        if kept is not None and kept.hash not in {plan.revision.hash for plan in revisions}:
            revisions.append(serving_plan(draft, kept))
    return StackPlan(revisions=tuple(revisions), selected=_selected(draft))


def _selected(draft: Draft) -> str | None:
    """Return what the Service is to select; that it moves to or fro within a window has to be confirmed."""
    stable, previous = draft.stable, draft.status.previous_revision
    if stable is None or previous is None:
        return None if stable is None else stable.hash
    target, count = (stable.hash, needed_pods(draft, previous))
    if stand_in(draft) is not None:
        target, count = (previous.hash, 1)
    if draft.facts.service_selects not in (None, target):
        draft.rest_on(ReadyPods(revision=target, count=count))
    return target


def _as_it_is(draft: Draft) -> tuple[RevisionPlan, ...]:
    """Plan what the candidate in flight has come to, and nothing that is not there yet."""
    candidate = draft.candidate
    facts = None if candidate is None else draft.facts.of(candidate)
    if candidate is None or facts is None or facts.store in {StoreState.ABSENT, StoreState.TERMINATING}:
        return ()
    has_job = facts.prefetch.state is not PrefetchState.ABSENT
    return (RevisionPlan(revision=candidate, prefetch=has_job, serve=facts.serving.exists),)


def count_none(draft: Draft) -> None:
    """Record that no Pod is model-ready, for there is no revision left."""
    draft.update(replicas=ReplicaStatus(desired=draft.spec.replicas, model_ready=0), selector="")


def count_replicas(draft: Draft, revision: RevisionStatus) -> tuple[int, int]:
    """Record and return how many Pods of `revision` are model-ready and how many should be."""
    serving, desired = draft.facts.of(revision).serving, draft.spec.replicas
    ready = serving.model_ready
    labels = names.revision_labels(draft.facts.model.metadata.name, revision.hash)
    draft.update(
        replicas=ReplicaStatus(desired=desired, model_ready=ready, current=serving.current),
        selector=",".join(f"{label}={value}" for label, value in sorted(labels.items())),
    )
    return ready, desired


def describe_ready(draft: Draft, *, reason: Reason = Reason.READY, candidate: Cause | None = None) -> None:
    """Say through `Ready` whether the stable answers requests; `reason` is used while it does.

    What keeps its Pods from being ready, else what stands in the way of a candidate, is the better reason: it is what
    people see first.
    """
    stable = draft.stable
    if stable is None:
        return
    if draft.facts.service_selects is None:
        # Only before the first traffic: what is ready but cannot be reached does not serve.
        draft.condition(ConditionType.READY, Reason.STARTING, "the Service is being created", holds=False)
        return
    told = _shortage_cause(draft, stable) or candidate
    previous = stand_in(draft)
    if previous is not None and draft.facts.service_selects == previous.hash:
        serving = previous.revision
        message = f"serving {serving.model} (revision {serving.hash}) until revision {stable.hash} has its Pods again"
        _say_ready(draft, Reason.SERVED_BY_PREVIOUS, message, told, holds=True)
        return
    if draft.facts.of(stable).serving.model_ready == 0:
        message = f"no Pod of revision {stable.hash} is ready"
        if is_stable_stopped(draft):
            message = f"revision {stable.hash} is stopped to make room for {draft.status.stable_stopped_for_revision}"
        _say_ready(draft, Reason.NO_MODEL_READY_PODS, message, told, holds=False)
        return
    _say_ready(draft, reason, f"serving {stable.model} (revision {stable.hash})", told, holds=True)


def _say_ready(draft: Draft, reason: Reason, message: str, cause: Cause | None, *, holds: bool) -> None:
    if cause is not None:
        reason, message = cause.reason, f"{message}; {cause.message}"
    draft.condition(ConditionType.READY, reason, message, holds=holds)


def _shortage_cause(draft: Draft, stable: RevisionStatus) -> Cause | None:
    """Return what keeps the stable from having all its Pods, if that is known."""
    serving = draft.facts.of(stable).serving
    return None if serving.model_ready >= draft.spec.replicas else cause_of(serving.obstacle)


def shortage(ready: int) -> Reason:
    """Return the reason for too few model-ready Pods."""
    return Reason.REPLICAS_NOT_MODEL_READY if ready else Reason.NO_MODEL_READY_PODS


def describe_replicas(draft: Draft, stable: RevisionStatus) -> tuple[int, int]:
    """Set `ModelReady` from the stable's Pods; return how many are model-ready and how many should be."""
    ready, desired = count_replicas(draft, stable)
    message = _counted(draft, stable, ready, desired)
    if ready >= desired:
        draft.condition(ConditionType.MODEL_READY, Reason.MODEL_READY, message, holds=True)
    else:
        draft.condition(ConditionType.MODEL_READY, shortage(ready), message, holds=False)
    return ready, desired


def _counted(draft: Draft, stable: RevisionStatus, ready: int, desired: int) -> str:
    """Say how many Pods are ready, and what keeps the others from it."""
    cause = _shortage_cause(draft, stable)
    return f"{ready}/{desired} Pods model-ready" + ("" if cause is None else f"; {cause.message}")


def phase_of_proved(draft: Draft) -> Phase:
    """Return the phase of a stable whose Pods are all proved: Ready once clients can reach it."""
    return Phase.STARTING if draft.facts.service_selects is None else Phase.READY


def describe_health(draft: Draft) -> Phase:
    """Set `Ready`, `ModelReady` and `Degraded` from the stable's Pods and return the phase they amount to."""
    stable = draft.stable
    if stable is None:
        raise ValueError("only a DecisionModel with a stable revision has a health")
    describe_ready(draft)
    return phase_of_proved(draft) if describe_pods(draft, stable) else Phase.DEGRADED


def describe_pods(draft: Draft, stable: RevisionStatus) -> bool:
    """Set `ModelReady` and `Degraded` from the stable's Pods; return whether there are enough."""
    ready, desired = describe_replicas(draft, stable)
    if ready >= desired:
        draft.forget(ConditionType.DEGRADED)
        return True
    message = _counted(draft, stable, ready, desired)
    if (previous := stand_in(draft)) is not None:
        message = f"{message}; revision {previous.hash} serves meanwhile"
    draft.condition(ConditionType.DEGRADED, shortage(ready), message, holds=True)
    return False


def describe_refusals(draft: Draft) -> None:
    """Report what keeps the platform from acting on the spec although the stable serves (spec section 5.4)."""
    withheld, stable = draft.facts.api_key_refusal, draft.stable
    if withheld is not None and stable is not None and not draft.facts.of(stable).serving.exists:
        message = f"the Deployment of revision {stable.hash} is gone, and waits for the API key: {withheld.message}"
        draft.degrade(withheld.reason, message)
    elif draft.facts.refusals:
        first = draft.facts.refusals[0]
        draft.degrade(first.reason, first.message)


def describe_stack(draft: Draft) -> None:
    """Report that the engine cannot do what is decided, unless something worse is; of too few Pods it is the cause."""
    message = draft.facts.stack_trouble
    if not message:
        return
    reported = find_condition(draft.status.conditions, ConditionType.DEGRADED)
    if reported is None:
        draft.degrade(Reason.STACK_FAILED, message)
    elif reported.reason in _SHORTAGES:
        draft.degrade(Reason(reported.reason), f"{reported.message}; {message}")


def recheck(draft: Draft) -> float:
    """Return when the stable is to be looked at again, in seconds."""
    stable = draft.stable
    if stable is None or draft.facts.of(stable).serving.model_ready < draft.spec.replicas:
        return timing.RECHECK_PROGRESS
    if draft.status.previous_revision is not None:
        return timing.RECHECK_PROGRESS
    return timing.RECHECK_READY


def _probed(draft: Draft) -> tuple[str, ...]:
    """Return whose Pods need a proof: those of what serves, and of what may have to stand in for it."""
    stable, previous = draft.stable, draft.status.previous_revision
    return tuple(each.hash for each in (stable, previous) if each is not None)


def maintain(draft: Draft, *, resolve: bool = False) -> Decision:
    """Keep the stable as it is recorded, whatever the spec says, and let the phase follow it."""
    draft.enter(describe_health(draft))
    return upkeep(draft, resolve=resolve)


def upkeep(draft: Draft, *, resolve: bool = False) -> Decision:
    """Plan the stack around what serves, store included; its health was described before."""
    guard_cache(draft)
    describe_refusals(draft)
    store_recheck = tend_store(draft)
    describe_stack(draft)
    return draft.decided(
        stack=stack_plan(draft),
        resolve=resolve,
        probe=_probed(draft),
        requeue_after=min(recheck(draft), store_recheck),
    )
