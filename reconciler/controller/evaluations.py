"""Scores candidates in the background: which Pods to ask, what is known already, and what came of it (spec section 7).

Answers are kept in memory by revision and data set, so that a gate that was edited is judged anew without asking again.
Everything here may be lost at any time: a run that did not reach the status is repeated.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.status import EvaluationResult, EvaluationStatus, RevisionStatus
from reconciler.controller.datasets import DatasetContent, read_dataset
from reconciler.controller.evaluation_subject import (
    EVALUATION_TASKS,
    Run,
    Subject,
    baseline_of,
    dataset_digest,
    key_of,
    planned_run,
)
from reconciler.controller.evidence import EvidenceKeeper
from reconciler.controller.observation import Children
from reconciler.evaluation.apart import judge_apart
from reconciler.evaluation.dataset import parse_dataset
from reconciler.evaluation.errors import CaseRejected, DatasetInvalid, EvaluationError, RunError
from reconciler.evaluation.execution import Evaluator, ServingPod
from reconciler.evaluation.gates import Verdict, judge
from reconciler.evaluation.parameters import Inputs, declared_parameters, policy_settings
from reconciler.evaluation.policy import Policy
from reconciler.evaluation.report import report_evaluation
from reconciler.evaluation.scores import SCORER_VERSION, compute_scores
from reconciler.evaluation.table import Item
from reconciler.evaluation.verdict import Decision as Comparison
from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KubernetesError
from reconciler.kernel.resources import ObjectKey
from reconciler.rollout import EvaluationFacts, Refusal
from reconciler.turns import FairSlots

RETRY_SECONDS = 10.0
"""Between runs that could not ask a Pod."""

COMPARISONS_AT_ONCE = 2
"""Each of them is a process with numpy in its memory; everything else in a run only waits for Pods."""

_RESULTS = {
    Comparison.PROMOTE: EvaluationResult.PASSED,
    Comparison.REJECT: EvaluationResult.FAILED,
    Comparison.UNDECIDED: EvaluationResult.UNDECIDED,
}

_log = logging.getLogger(__name__)


class BaselineUnavailable(RunError):  # noqa: N818 - the reason that users know from the condition
    """The serving revision could not be asked, so there is nothing to compare the candidate with."""


@dataclass(frozen=True, slots=True)
class TableKey:
    """What the answers of one revision depend on."""

    owner: str
    revision: str
    dataset: str
    max_cases: int
    tolerance: str


class Evaluations:
    """Runs evaluations and reports them as facts.

    Args:
        client: Reads data sets.
        evaluator: Asks Pods.
        background: Where runs go, one per DecisionModel.
        evidence: Keeps what a verdict rests on.
        clock: Monotonic seconds.
        now: Wall clock, for when an evaluation ended.
    """

    def __init__(  # noqa: PLR0913 - collaborators, and the injected clocks
        self,
        client: KubernetesClient,
        evaluator: Evaluator,
        background: BackgroundTasks,
        evidence: EvidenceKeeper,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._evaluator = evaluator
        self._background = background
        self._evidence = evidence
        self._clock = clock
        self._now = now
        self.comparisons = FairSlots(COMPARISONS_AT_ONCE, clock=clock)
        self._subjects: dict[str, Subject] = {}
        self._tables: dict[TableKey, tuple[Item, ...]] = {}
        self._silent: dict[str, tuple[str, float]] = {}
        """By DecisionModel, the serving revision that did not answer the last time, and since when."""
        self._begun: dict[TaskKey, datetime] = {}
        """When the first run of a subject got its slot: its deadline counts from then."""

    async def facts(self, model: DecisionModel) -> EvaluationFacts | None:
        """Return what is known about scoring the candidate in flight; None when there is nothing to score.

        Raises:
            KubernetesError: The API server did not answer.
        """
        evaluation, candidate = model.spec.rollout.evaluation, model.status.candidate_revision
        if evaluation is None or candidate is None:
            return None
        statistics = evaluation.statistics
        policy = Policy.of(evaluation, () if statistics is None else policy_settings(statistics))
        found = await read_dataset(self._client, model, evaluation.dataset_ref)
        if isinstance(found, Refusal):
            return EvaluationFacts(policy_hash=policy.hash, obstacle=found)
        digest = dataset_digest(found.content)
        known = EvaluationFacts(
            policy_hash=policy.hash, dataset_digest=digest, by_deprecated_label=found.by_deprecated_label
        )
        subject = await self._subject(model, policy, found, digest)
        if isinstance(subject, Refusal):
            return known.obstructed(subject, hopeless=True)
        if subject.left_out and model.status.stable_revision is not None:
            known = known.compared_with_nothing(subject.left_out)
        waits = self._background.running(subject.task) and self._background.begun(subject.task) is None
        known = replace(known, waits=waits, begun_at=self._begun.get(subject.task))
        return self._with_outcome(known, subject)

    def run(self, model: DecisionModel, children: Children, api_key: str | None) -> float | None:
        """Start, or go on with, the run that the last facts were about; return when to look again, in seconds."""
        subject = self._subjects.get(model.metadata.uid)
        if subject is None or self._background.running(subject.task):
            return None
        outcome = self._background.outcome(subject.task)
        if outcome is not None and (outcome.error is None or isinstance(outcome.error, CaseRejected)):
            return None
        if outcome is not None and (wait := outcome.ended_at + RETRY_SECONDS - self._clock()) > 0:
            return wait
        run = planned_run(subject, children, api_key)
        if run is not None:
            self._background.start(subject.task, functools.partial(self._scored, run))
        return None

    def stop(self, key: ObjectKey, uid: str) -> None:
        """End what runs for a DecisionModel whose candidate is no longer to be scored, and forget its answers."""
        subject = self._subjects.pop(uid, None)
        if subject is None:
            return
        self._begun.pop(subject.task, None)
        self._background.cancel(key, EVALUATION_TASKS)
        for table in [table for table in self._tables if table.owner == uid]:
            del self._tables[table]

    def forget(self, key: ObjectKey, uid: str) -> None:
        """End what runs for a DecisionModel that is gone, and forget all about it."""
        self.stop(key, uid)
        self._silent.pop(uid, None)

    async def _subject(
        self, model: DecisionModel, policy: Policy, found: DatasetContent, digest: str
    ) -> Subject | Refusal:
        """Return the subject of right now; its data set is read once for as long as its bytes stay the same."""
        evaluation, candidate = model.spec.rollout.evaluation, model.status.candidate_revision
        if evaluation is None or candidate is None:
            raise ValueError("only a candidate that is to be scored is a subject")
        before = self._subjects.get(model.metadata.uid)
        try:
            if before is not None and before.dataset.digest == digest and before.policy.max_cases == policy.max_cases:
                dataset = before.dataset
            else:
                dataset = await asyncio.to_thread(parse_dataset, found.content, policy.max_cases)
        except DatasetInvalid as error:
            return Refusal(reason=Reason.DATASET_INVALID, message=str(error))
        silent_for = self._silent_for(model)
        baseline, left_out = baseline_of(model, policy, evaluation, self._now(), silent_for)
        subject = Subject(
            model=model,
            evaluation=evaluation,
            policy=policy,
            dataset=dataset,
            candidate=candidate,
            baseline=baseline,
            left_out=left_out,
        )
        if before is not None and before.task != subject.task:
            self._background.cancel(key_of(model), EVALUATION_TASKS)
            self._begun.pop(before.task, None)
        self._subjects[model.metadata.uid] = subject
        return subject

    def _silent_for(self, model: DecisionModel) -> timedelta:
        """Return for how long what serves has not answered, as far as this process has asked."""
        revision, since = self._silent.get(model.metadata.uid, ("", 0.0))
        stable = model.status.stable_revision
        if stable is None or stable.hash != revision:
            return timedelta(0)
        return timedelta(seconds=self._clock() - since)

    def _with_outcome(self, known: EvaluationFacts, subject: Subject) -> EvaluationFacts:
        outcome = self._background.outcome(subject.task)
        if outcome is None:
            return known
        if isinstance(outcome.error, CaseRejected):
            return known.obstructed(Refusal(reason=Reason.DATASET_INVALID, message=str(outcome.error)))
        if isinstance(outcome.error, BaselineUnavailable):
            return known.obstructed(Refusal(reason=Reason.BASELINE_UNAVAILABLE, message=str(outcome.error)))
        if outcome.error is None:
            return known.concluded(outcome.value)
        return known.troubled(_trouble(outcome.error))

    async def _scored(self, run: Run) -> EvaluationStatus:
        """Judge the candidate; why that could not be done is logged once, and a fact until the next run has ended."""
        self._begun.setdefault(run.subject.task, self._now())
        try:
            return await self._judge(run)
        except Exception as error:
            is_foreseen = isinstance(error, EvaluationError | KubernetesError)
            revision = run.subject.candidate.hash
            _log.warning("scoring revision %s: %s", revision, _trouble(error), exc_info=None if is_foreseen else error)
            raise

    async def _judge(self, run: Run) -> EvaluationStatus:
        subject = run.subject
        _log.info("scoring revision %s on %d cases", subject.candidate.hash, len(subject.dataset.cases))
        candidate = await self._table(subject, subject.candidate, run.candidate)
        baseline = await self._baseline_table(run)
        scores = await asyncio.to_thread(compute_scores, candidate)
        baseline_scores = await asyncio.to_thread(compute_scores, baseline) if baseline is not None else None
        verdict = judge(subject.policy, scores, baseline_scores)
        if verdict.is_passed and baseline is not None:
            verdict = await self._compare(subject, baseline, candidate) or verdict
        return report_evaluation(
            revision=subject.candidate.hash,
            dataset_digest=subject.dataset.digest,
            policy=subject.policy,
            candidate=scores,
            baseline=baseline_scores,
            verdict=verdict,
            completed_at=self._now().replace(microsecond=0),
            left_out=subject.left_out,
        )

    async def _baseline_table(self, run: Run) -> tuple[Item, ...] | None:
        subject = run.subject
        if subject.baseline is None:
            return None
        uid, revision = subject.model.metadata.uid, subject.baseline.hash
        if run.baseline is None:
            raise BaselineUnavailable(f"no Pod of revision {revision} is ready to be compared with")
        try:
            table = await self._table(subject, subject.baseline, run.baseline)
        except RunError as error:
            if self._silent.get(uid, ("", 0.0))[0] != revision:
                self._silent[uid] = (revision, self._clock())
            raise BaselineUnavailable(f"revision {revision}: {error}") from error
        self._silent.pop(uid, None)
        return table

    async def _table(self, subject: Subject, revision: RevisionStatus, pod: ServingPod) -> tuple[Item, ...]:
        key = TableKey(
            owner=subject.model.metadata.uid,
            revision=revision.hash,
            dataset=subject.dataset.digest,
            max_cases=subject.policy.max_cases,
            tolerance=subject.policy.score_tolerance,
        )
        if key not in self._tables:
            self._tables[key] = await self._evaluator.score_revision(pod, subject.dataset, subject.policy.tolerance)
        return self._tables[key]

    async def _compare(
        self, subject: Subject, baseline: tuple[Item, ...], candidate: tuple[Item, ...]
    ) -> Verdict | None:
        """Compare both revisions item by item where the spec asks for it, and keep what the verdict rests on."""
        statistics = subject.evaluation.statistics
        if statistics is None or subject.baseline is None:
            return None
        inputs = Inputs(
            dataset_digest=subject.dataset.digest,
            policy_hash=subject.policy.hash,
            stable_digest=subject.baseline.digest,
            candidate_digest=subject.candidate.digest,
            scorer_version=str(SCORER_VERSION),
        )
        parameters = declared_parameters(statistics, inputs.seed)
        async with self.comparisons.hold(subject.model.metadata.namespace):
            proof = await judge_apart(baseline, candidate, inputs, parameters)
        await self._evidence.keep(subject.model, subject.candidate.hash, proof.document)
        return Verdict(_RESULTS[proof.verdict.decision], f"{proof.verdict.code}: {proof.verdict.text}")


def _trouble(error: Exception) -> str:
    """Return what to say of a run that could not be ended; of a fault of our own, only that it is one."""
    if isinstance(error, EvaluationError | KubernetesError):
        return str(error)
    return f"a fault of the reconciler ({type(error).__name__}); its log says more"
