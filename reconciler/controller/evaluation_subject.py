"""What an evaluation is about: candidate, gates, data set, what to compare with, and which Pods to ask. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.decisionmodel import DecisionModel
from api.rollout import Evaluation, Promotion, Rollout
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.controller.observation import Children, is_model_ready, serving_pods
from reconciler.engine.names import ModelName
from reconciler.evaluation.dataset import Dataset
from reconciler.evaluation.execution import ServingPod
from reconciler.evaluation.policy import Policy
from reconciler.kernel.background import TaskKey
from reconciler.kernel.resources import ObjectKey
from reconciler.rollout import timing

EVALUATION_TASKS = "evaluate"
SCORED_PHASES = (Phase.STARTING, Phase.EVALUATING, Phase.AWAITING_PROMOTION)
"""In which a data set is read; before them it may still change for nothing."""

_STOPPED = "gates relative to the serving revision were skipped: strategy Recreate has stopped it"
_NOTHING_SERVES = "nothing serves yet to compare with"
_NOT_COMPARED = "nothing was compared, only gates that need no comparison decide"
_UNSERVED = (Reason.RESOURCE_CONFLICT, Reason.STARTING)
"""Reasons of `Ready=False` that say nothing about the Pods of what serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is to be judged, by what, against what. `policy` and `dataset` identify it."""

    model: DecisionModel
    evaluation: Evaluation
    policy: Policy
    dataset: Dataset
    candidate: RevisionStatus
    baseline: RevisionStatus | None
    left_out: str = ""

    @property
    def task(self) -> TaskKey:
        """The run that judges it."""
        against = self.baseline.hash if self.baseline else "nothing"
        detail = f"{self.candidate.hash} {self.policy.hash} {self.dataset.digest} against {against}"
        return TaskKey(key_of(self.model), EVALUATION_TASKS, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A subject and the Pods to ask about it; no baseline where none is needed, or none is ready."""

    subject: Subject
    candidate: ServingPod
    baseline: ServingPod | None = None


def dataset_digest(content: bytes) -> str:
    """Return the 16 hex digits that `Dataset.digest` would have, also for bytes that are no data set."""
    return hashlib.sha256(content).hexdigest()[:16]


def patience(rollout: Rollout) -> timedelta:
    """Return how long a serving revision may be away or silent before a candidate is compared with nothing.

    As long as its Pods may take to start again, but at most half of the time in which a candidate is judged: a revision
    that is away for a moment must not let a worse one pass. A person who has to approve anyway sees what was left out.
    """
    if rollout.effective_promotion is Promotion.MANUAL:
        return timedelta(seconds=timing.UNHEALTHY_DEBOUNCE)
    return min(rollout.timeouts.starting_timeout, rollout.timeouts.evaluating_timeout / 2)


def away_for(status: DecisionModelStatus, now: datetime) -> timedelta:
    """Return for how long no Pod of what serves has been ready, by the recorded condition; 0 while one is."""
    ready, replicas = find_condition(status.conditions, ConditionType.READY), status.replicas
    if ready is None or ready.status != "False" or ready.reason in _UNSERVED or ready.last_transition_time is None:
        return timedelta(0)
    return timedelta(0) if replicas is None or replicas.model_ready else now - ready.last_transition_time


def baseline_of(
    model: DecisionModel, policy: Policy, evaluation: Evaluation, now: datetime, silent_for: timedelta
) -> tuple[RevisionStatus | None, str]:
    """Return the revision to compare with, or none and why there is none.

    Args:
        model: What rolls out.
        policy: Its gates.
        evaluation: Its evaluation.
        now: The present.
        silent_for: For how long what serves has not answered the data set.
    """
    status = model.status
    if not policy.is_relative and evaluation.statistics is None:
        return None, ""
    if status.stable_revision is None:
        return None, _NOTHING_SERVES
    candidate = status.candidate_revision
    if candidate is not None and status.stable_stopped_for_revision == candidate.hash:
        return None, _STOPPED
    if away_for(status, now) >= patience(model.spec.rollout):
        return None, f"{_NOT_COMPARED}: no Pod of revision {status.stable_revision.hash} has been ready for long"
    if silent_for >= patience(model.spec.rollout):
        return None, f"{_NOT_COMPARED}: revision {status.stable_revision.hash} has not answered the data set for long"
    return status.stable_revision, ""


def planned_run(subject: Subject, children: Children, api_key: str | None) -> Run | None:
    """Return whom to ask; None while the candidate has no proved Pod."""
    candidate = _pod(subject, subject.candidate, children, api_key)
    if candidate is None:
        return None
    baseline = None if subject.baseline is None else _pod(subject, subject.baseline, children, api_key)
    return Run(subject=subject, candidate=candidate, baseline=baseline)


def _pod(subject: Subject, revision: RevisionStatus, children: Children, api_key: str | None) -> ServingPod | None:
    """Return one proved Pod of a revision."""
    for pod in serving_pods(children, subject.model.metadata.uid, revision.hash):
        if is_model_ready(pod):
            reference = ModelName.parse(revision.model).reference
            return ServingPod(address=str(pod["status"]["podIP"]), model=reference, api_key=api_key)
    return None


def key_of(model: DecisionModel) -> ObjectKey:
    """Return namespace and name."""
    return ObjectKey(model.metadata.namespace, model.metadata.name)
