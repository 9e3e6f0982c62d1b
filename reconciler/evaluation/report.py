"""An evaluation as `status.evaluation` tells it (spec section 1.3): figures with four decimals. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from api.status import EvaluationStatus, QuestionScore
from reconciler.evaluation.gates import Verdict, show
from reconciler.evaluation.policy import Policy, approval_id
from reconciler.evaluation.scores import SCORER_VERSION, QuestionScores, Scores

_MOST_QUESTIONS: Final = 20
_LONGEST_ID: Final = 63
_SUFFIX_DIGITS: Final = 8


def report_evaluation(  # noqa: PLR0913 - the parts of an evaluation, each of its own origin
    *,
    revision: str,
    dataset_digest: str,
    policy: Policy,
    candidate: Scores,
    baseline: Scores | None,
    verdict: Verdict,
    completed_at: datetime,
    left_out: str = "",
) -> EvaluationStatus:
    """The status of an evaluation that has ended.

    Args:
        revision: Hash of the revision that was scored.
        dataset_digest: `Dataset.digest`.
        policy: The gates that applied.
        candidate: The revision's scores.
        baseline: The serving revision's scores, None when it was not scored.
        verdict: What the gates say.
        completed_at: When it ended.
        left_out: For people: what was not compared, and why. Shown unless a gate was violated.
    """
    questions = candidate.questions
    return EvaluationStatus(
        revision=revision,
        accuracy=show(candidate.accuracy),
        baseline_accuracy=show(baseline.accuracy if baseline else None),
        cases=candidate.cases,
        failed_cases=candidate.failed_cases,
        calibrated_cases=candidate.calibrated,
        ece=show(candidate.ece),
        brier=show(candidate.brier),
        baseline_ece=show(baseline.ece if baseline else None),
        macro_f1=show(candidate.macro_f1),
        baseline_macro_f1=show(baseline.macro_f1 if baseline else None),
        classifiable_cases=candidate.classifiable,
        min_accuracy=policy.min_accuracy,
        max_accuracy_drop=policy.max_accuracy_drop or "",
        max_ece=policy.max_ece or "",
        max_ece_increase=policy.max_ece_increase or "",
        min_macro_f1=policy.min_macro_f1 or "",
        max_macro_f1_drop=policy.max_macro_f1_drop or "",
        questions=_question_scores(questions[:_MOST_QUESTIONS]),
        truncated=len(questions) > _MOST_QUESTIONS,
        result=verdict.result,
        reason=verdict.reason or left_out,
        policy_hash=policy.hash,
        scorer_version=SCORER_VERSION,
        dataset_digest=dataset_digest,
        approval_id=approval_id(revision, policy.hash, dataset_digest),
        completed_at=completed_at,
    )


def _question_scores(questions: Iterable[QuestionScores]) -> tuple[QuestionScore, ...]:
    return tuple(
        QuestionScore(
            id=_short_id(each.question), cases=each.items, accuracy=show(each.accuracy), macro_f1=show(each.macro_f1)
        )
        for each in questions
    )


def _short_id(question: str) -> str:
    """A question's id in at most 63 characters; a longer one is cut and told apart by its hash (spec section 7.5)."""
    if len(question) <= _LONGEST_ID:
        return question
    suffix = hashlib.sha256(question.encode()).hexdigest()[:_SUFFIX_DIGITS]
    return f"{question[: _LONGEST_ID - 1 - _SUFFIX_DIGITS]}-{suffix}"
