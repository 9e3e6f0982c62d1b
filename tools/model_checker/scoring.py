"""The evaluation of a candidate: its data set, the run in the background, and what becomes of it (spec section 7)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from api.conditions import Reason
from api.status import DecisionModelStatus, EvaluationResult, EvaluationStatus
from reconciler.evaluation.policy import approval_id
from reconciler.rollout import EvaluationFacts, Refusal

_POLICY = "0" * 16


class Dataset(StrEnum):
    """The golden data set; another one stands for other gates as well, for what passed counts under neither."""

    FIRST = "first"
    SECOND = "second"
    MISSING = "missing"
    MALFORMED = "malformed"

    @property
    def digest(self) -> str:
        """The digest of a data set that can be read."""
        return {Dataset.FIRST: "1" * 16, Dataset.SECOND: "2" * 16}.get(self, "")


class Run(NamedTuple):
    """What a process knows of the run for a revision on a data set; `result` is None while it goes on."""

    revision: int
    dataset: Dataset
    result: EvaluationResult | None = None


class Scoring(NamedTuple):
    """What there is to score on, and the run that was started last."""

    dataset: Dataset = Dataset.FIRST
    run: Run | None = None

    def run_for(self, candidate: int) -> Run | None:
        """Return the run for a candidate on the data set of right now, if that is the last one."""
        run = self.run
        return run if run is not None and (run.revision, run.dataset) == (candidate, self.dataset) else None

    def asked_for(self, candidate: int | None) -> Scoring:
        """Return the scoring after a pass that wants `candidate` scored, or nothing."""
        if candidate is None:
            return self._replace(run=None)
        if self.run_for(candidate) is not None or not self.dataset.digest:
            return self
        return self._replace(run=Run(candidate, self.dataset))

    def ended(self, result: EvaluationResult) -> Scoring:
        """Return the scoring after the run under way has ended; as it is when none is under way."""
        if self.run is None or self.run.result is not None:
            return self
        return self._replace(run=self.run._replace(result=result))


def approval_of(revision: str, dataset: Dataset) -> str:
    """Return what approves a revision under the data set of right now; nothing does without one."""
    return approval_id(revision, _POLICY, dataset.digest) if dataset.digest else ""


def scoring_facts(scoring: Scoring, candidate: int, revision: str) -> EvaluationFacts:
    """Return what a pass knows about scoring the candidate, whose hash is `revision`."""
    known = EvaluationFacts(policy_hash=_POLICY, dataset_digest=scoring.dataset.digest)
    if scoring.dataset is Dataset.MISSING:
        return known.obstructed(Refusal(reason=Reason.DATASET_NOT_FOUND, message="there is no data set"))
    if scoring.dataset is Dataset.MALFORMED:
        refusal = Refusal(reason=Reason.DATASET_INVALID, message="the data set is malformed")
        return known.obstructed(refusal, hopeless=True)
    run = scoring.run_for(candidate)
    if run is None or run.result is None:
        return known
    return known.concluded(
        EvaluationStatus(
            revision=revision,
            result=run.result,
            reason=f"it {run.result.lower()}",
            policy_hash=_POLICY,
            dataset_digest=run.dataset.digest,
            approval_id=approval_of(revision, run.dataset),
        )
    )


def has_passed(status: DecisionModelStatus, revision: str, dataset: Dataset) -> bool:
    """Whether the status records that a revision passed on the data set of right now."""
    recorded = status.evaluation
    if recorded is None or recorded.revision != revision or recorded.result is not EvaluationResult.PASSED:
        return False
    return recorded.dataset_digest == dataset.digest
