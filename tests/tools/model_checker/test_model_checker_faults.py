"""The checker finds faults that are put in on purpose, each with a run that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.keys import PROMOTE_ANNOTATION
from api.status import EvaluationResult, EvaluationStatus
from reconciler.controller import observation
from reconciler.rollout import Decision, Facts, RevisionFacts, decide
from tools.model_checker import Property, Scope, Start, check, serving
from tools.model_checker.cluster import REPLICAS
from tools.model_checker.judge import Decide


def collection_ignores_the_service(facts: Facts) -> Decision:
    """Garbage collection keeps what the status names, and not what the live Service selects."""
    decision = decide(facts)
    status, stack = decision.status, decision.stack
    named = [status.stable_revision, status.candidate_revision]
    named.append(status.previous_revision.revision if status.previous_revision else None)
    hashes = {each.hash for each in named if each is not None}
    if stack is None:
        return decision
    kept = tuple(each for each in stack.revisions if each.revision.hash in hashes)
    return replace(decision, stack=replace(stack, revisions=kept))


def one_ready_pod_is_enough(facts: Facts) -> Decision:
    """A candidate is promoted with its first ready Pod."""
    return decide(replace(facts, revisions={name: _rounded_up(each) for name, each in facts.revisions.items()}))


def _rounded_up(facts: RevisionFacts) -> RevisionFacts:
    ready = 2 if facts.serving.model_ready else 0
    return replace(facts, serving=replace(facts.serving, model_ready=ready))


def window_ends_before_the_switch(facts: Facts) -> Decision:
    """The old revision is forgotten with the promotion, while the Service still selects it."""
    decision = decide(facts)
    previous = decision.status.previous_revision
    if previous is None or facts.service_selects != previous.hash:
        return decision
    return replace(decision, status=decision.status.model_copy(update={"previous_revision": None}))


def rejected_is_tried_again(facts: Facts) -> Decision:
    """A rejection is forgotten with the pass that recorded it."""
    status = facts.model.status.model_copy(update={"failed_revision": None})
    return decide(replace(facts, model=facts.model.model_copy(update={"status": status})))


def promotion_is_told_by_every_pass(facts: Facts) -> Decision:
    """The Event is repeated for as long as the condition holds."""
    decision = decide(facts)
    told = [event for event in decision.events if event.reason == "Promoted"]
    return replace(decision, events=(*decision.events, *told))


def unscored_is_good_enough(facts: Facts) -> Decision:
    """A candidate is promoted by what was measured under whatever data set."""
    candidate = facts.model.status.candidate_revision
    if facts.evaluation is None or candidate is None:
        return decide(facts)
    passed = EvaluationStatus(revision=candidate.hash, result=EvaluationResult.PASSED, dataset_digest="0" * 16)
    return decide(replace(facts, evaluation=facts.evaluation.concluded(passed)))


def approval_is_taken_for_granted(facts: Facts) -> Decision:
    """What waits for a person is promoted as if one had approved it."""
    metadata, evaluation = facts.model.metadata, facts.model.status.evaluation
    expected = evaluation.approval_id if evaluation is not None else ""
    annotations = {**metadata.annotations, PROMOTE_ANNOTATION: expected}
    model = facts.model.model_copy(update={"metadata": metadata.model_copy(update={"annotations": annotations})})
    return decide(replace(facts, model=model))


def the_queue_is_jumped(facts: Facts) -> Decision:
    """A rollout begins without a slot."""
    return decide(replace(facts, admitted=True))


def room_is_taken_for_granted(facts: Facts) -> Decision:
    """A candidate starts while the Pods that stop for it are still there."""
    vacated = {name: replace(each, serving=replace(each.serving, pods=0)) for name, each in facts.revisions.items()}
    return decide(replace(facts, revisions=vacated))


def absence_is_blamed(facts: Facts) -> Decision:
    """Pods that others took away count as if they ran without their proof."""
    blamed = {name: replace(each, serving=replace(each.serving, away=0)) for name, each in facts.revisions.items()}
    return decide(replace(facts, revisions=blamed))


def the_spec_says_how_many_were_ready(facts: Facts) -> Decision:
    """A promoted revision is held to as many Pods as are asked for now, and those that start count as bad."""
    status, replicas = facts.model.status, facts.model.spec.replicas
    if status.previous_revision is None or replicas == REPLICAS:
        return decide(facts)
    previous = status.previous_revision.model_copy(update={"proved_replicas": replicas})
    model = facts.model.model_copy(update={"status": status.model_copy(update={"previous_revision": previous})})
    return absence_is_blamed(replace(facts, model=model))


def a_refusal_freezes_everything(facts: Facts) -> Decision:
    """While something has to be mended, nothing moves, not even back."""
    if facts.preflight is None and not facts.refusals:
        return decide(facts)
    return Decision(status=facts.model.status)


FAULTS: list[tuple[Decide, Start, Property]] = [
    (one_ready_pod_is_enough, Start.SERVING, Property.PROOF),
    (window_ends_before_the_switch, Start.SERVING, Property.TRAFFIC),
    (rejected_is_tried_again, Start.SERVING, Property.REST),
    (promotion_is_told_by_every_pass, Start.SERVING, Property.TELLING),
    (unscored_is_good_enough, Start.EVALUATED, Property.SCORING),
    (approval_is_taken_for_granted, Start.APPROVED, Property.APPROVAL),
    (the_queue_is_jumped, Start.QUEUED, Property.SLOT),
    (room_is_taken_for_granted, Start.RECREATE, Property.ROOM),
    (a_refusal_freezes_everything, Start.SERVING, Property.REST),
    (absence_is_blamed, Start.SERVING, Property.BLAME),
    (the_spec_says_how_many_were_ready, Start.SERVING, Property.BLAME),
]


LATE = [(collection_ignores_the_service, Start.SERVING, Property.SELECTED)]
"""Found after most of the states were seen."""


@pytest.mark.parametrize(
    ("fault", "start", "broken"),
    [*FAULTS, *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in LATE)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_fault_is_found_with_a_run_that_shows_it(fault: Decide, start: Start, broken: Property) -> None:
    report = check(Scope(depth=1, start=start), fault)
    assert report.violation is not None, str(report)
    assert report.violation.broken is broken, str(report)
    assert report.trace
    for number, label in enumerate(report.trace, 1):
        assert f"{number:3} {label}" in str(report)


def test_pods_that_have_ended_and_are_waited_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "has_ended", lambda _: False)
    serving.clear()
    try:
        report = check(Scope(depth=1, start=Start.RECREATE))
    finally:
        monkeypatch.undo()
        serving.clear()
    assert report.violation is not None, str(report)
    assert report.violation.broken is Property.ROOM, str(report)
    assert any(label.startswith("Pod evicted") for label in report.trace)
