"""The golden-data-set gate between a ready candidate and its promotion (spec sections 7.4 and 7.5).

Scoring itself happens elsewhere and arrives as a fact. What passed is recorded in the status, so a process that takes
over does not score again; what is still running is scored again, and nobody is told twice.
"""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Phase, Reason, find_condition
from api.keys import DATASET_LABEL
from api.rollout import Evaluation, OnUndecided
from api.status import EvaluationResult, EvaluationStatus, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.decision import Decision, RevisionPlan
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import EvaluationFacts, Refusal
from reconciler.rollout.in_flight import hold
from reconciler.rollout.recreate import is_stable_stopped
from reconciler.rollout.rejection import reject


def gate(draft: Draft, candidate: RevisionStatus, plan: RevisionPlan) -> Decision | None:
    """Return what a candidate whose Pods are ready still has to wait for, or its rejection; None once it passed."""
    evaluation = draft.spec.rollout.evaluation
    if evaluation is None:
        draft.condition(ConditionType.EVALUATED, Reason.EVALUATION_SKIPPED, "there is nothing to pass", holds=True)
        return None
    facts = draft.facts.evaluation or EvaluationFacts()
    if facts.obstacle is not None:
        return _obstructed(draft, candidate, plan, facts.obstacle, hopeless=facts.hopeless)
    outcome = _outcome(draft, candidate, facts)
    if outcome is None:
        return _score(draft, candidate, plan, facts)
    return _judge(draft, candidate, plan, outcome, evaluation)


def _outcome(draft: Draft, candidate: RevisionStatus, facts: EvaluationFacts) -> EvaluationStatus | None:
    """Return the result that counts: just measured, or a pass recorded for the same revision, policy and data set."""
    if facts.outcome is not None:
        return facts.outcome
    recorded = draft.status.evaluation
    if recorded is None or recorded.result is not EvaluationResult.PASSED or recorded.revision != candidate.hash:
        return None
    if not facts.uncompared and _lacks_baseline(draft, recorded):
        return None
    current = (facts.policy_hash, facts.dataset_digest)
    return recorded if (recorded.policy_hash, recorded.dataset_digest) == current else None


def _lacks_baseline(draft: Draft, recorded: EvaluationStatus) -> bool:
    """Whether the result rests on less than can be measured now: nothing ran then to compare the candidate with."""
    evaluation = draft.spec.rollout.evaluation
    compares = evaluation is not None and _is_relative(evaluation) and draft.stable is not None
    return compares and not is_stable_stopped(draft) and not recorded.baseline_accuracy


def _obstructed(
    draft: Draft, candidate: RevisionStatus, plan: RevisionPlan, obstacle: Refusal, *, hopeless: bool
) -> Decision:
    if hopeless:
        return reject(draft, candidate, obstacle.reason, obstacle.message)
    if _overdue(draft):
        late = obstacle.reason is Reason.BASELINE_UNAVAILABLE
        return reject(
            draft, candidate, Reason.EVALUATION_TIMEOUT if late else obstacle.reason, f"{obstacle.message} (deadline)"
        )
    if draft.condition(ConditionType.EVALUATED, obstacle.reason, obstacle.message, holds=False):
        draft.event(EventReason.EVALUATION_ON_HOLD, f"{obstacle.reason}: {obstacle.message}")
    return hold(draft, candidate, plan, Phase.EVALUATING, timing.RECHECK_HELD, evaluate=True)


def _score(draft: Draft, candidate: RevisionStatus, plan: RevisionPlan, facts: EvaluationFacts) -> Decision:
    if _overdue(draft):
        message = _with_trouble("the candidate was not scored in time", facts)
        return reject(draft, candidate, Reason.EVALUATION_TIMEOUT, message)
    if _was_parked(draft):
        message = "the data set or the gates changed while the candidate waited; it is scored again"
        draft.condition(ConditionType.EVALUATED, Reason.DATASET_CHANGED, message, holds=False)
        draft.event(EventReason.DATASET_CHANGED, message)
    else:
        _announce(draft, candidate, facts)
    return hold(draft, candidate, plan, Phase.EVALUATING, timing.RECHECK_PROGRESS, evaluate=True)


def _was_parked(draft: Draft) -> bool:
    """Whether the candidate had passed and waited for approval."""
    evaluated = find_condition(draft.status.conditions, ConditionType.EVALUATED)
    passed = evaluated is not None and evaluated.reason == Reason.EVALUATION_PASSED
    return passed and draft.status.phase == Phase.AWAITING_PROMOTION


def _announce(draft: Draft, candidate: RevisionStatus, facts: EvaluationFacts) -> None:
    doing = "the candidate waits for its turn to be scored" if facts.waits else "the candidate is being scored"
    message = _with_trouble(doing, facts)
    if draft.condition(ConditionType.EVALUATED, Reason.EVALUATION_RUNNING, message, holds=False):
        occasion = f"{candidate.hash} {facts.policy_hash} {facts.dataset_digest}"
        draft.event(EventReason.EVALUATION_STARTED, f"scoring revision {candidate.hash}", occasion=occasion)
        if facts.by_deprecated_label:
            note = f"label the data set's Secret {DATASET_LABEL} instead: api-key opens it for one more release only"
            draft.event(EventReason.DEPRECATED_SECRET_LABEL, note, occasion=occasion)
        _announce_skipped_gates(draft, candidate, facts)


def _with_trouble(message: str, facts: EvaluationFacts) -> str:
    return f"{message}; the last run: {facts.trouble}" if facts.trouble else message


def _announce_skipped_gates(draft: Draft, candidate: RevisionStatus, facts: EvaluationFacts) -> None:
    evaluation = draft.spec.rollout.evaluation
    if evaluation is None or draft.stable is None or not _is_relative(evaluation):
        return
    if is_stable_stopped(draft):
        note = "gates relative to the serving revision are skipped: strategy Recreate has stopped it"
        draft.event(EventReason.EVALUATION_ON_HOLD, note, occasion=f"relative {candidate.hash}")
    elif facts.uncompared:
        draft.event(EventReason.EVALUATION_ON_HOLD, facts.uncompared, occasion=f"uncompared {candidate.hash}")


def _is_relative(evaluation: Evaluation) -> bool:
    """Whether a gate compares with the serving revision."""
    drops = (evaluation.max_accuracy_drop, evaluation.max_ece_increase, evaluation.max_macro_f1_drop)
    return evaluation.statistics is not None or any(drop is not None for drop in drops)


def _judge(
    draft: Draft, candidate: RevisionStatus, plan: RevisionPlan, outcome: EvaluationStatus, evaluation: Evaluation
) -> Decision | None:
    draft.update(evaluation=outcome)
    if outcome.result is EvaluationResult.FAILED:
        draft.event(EventReason.EVALUATION_FAILED, f"revision {candidate.hash}: {outcome.reason}")
        return reject(draft, candidate, Reason.EVALUATION_FAILED, outcome.reason)
    if outcome.result is EvaluationResult.UNDECIDED:
        statistics = evaluation.statistics
        gives_up = statistics is not None and statistics.on_undecided is OnUndecided.REJECT
        obstacle = Refusal(reason=Reason.EVALUATION_UNDECIDED, message=outcome.reason)
        return _obstructed(draft, candidate, plan, obstacle, hopeless=gives_up)
    message = f"revision {candidate.hash}: {measured(outcome)}"
    if draft.condition(ConditionType.EVALUATED, Reason.EVALUATION_PASSED, message, holds=True):
        draft.event(EventReason.EVALUATION_PASSED, message)
    return None


def measured(outcome: EvaluationStatus) -> str:
    """Return the figures people want to read first, and what was left out of a pass."""
    if outcome.baseline_accuracy:
        return f"accuracy {outcome.accuracy}, baseline {outcome.baseline_accuracy}"
    left_out = f"; {outcome.reason}" if outcome.reason and outcome.result is EvaluationResult.PASSED else ""
    return f"accuracy {outcome.accuracy}{left_out}"


def _overdue(draft: Draft) -> bool:
    """Whether the deadline has passed; it does not count while others' runs have all slots."""
    facts = draft.facts.evaluation or EvaluationFacts()
    deadline = draft.spec.rollout.timeouts.evaluating_timeout
    return not facts.waits and draft.has_outlasted(Phase.EVALUATING, deadline, counted_from=facts.begun_at)
