"""Asking the registry what a tag stands for, in the background and never more often than helps (spec section 2.3)."""

from __future__ import annotations

import time
from collections.abc import Callable

from reconciler.engine.errors import EngineError, TagNotFound
from reconciler.engine.names import ModelName
from reconciler.engine.registry import RegistryClient, ResolvedManifest
from reconciler.kernel.background import BackgroundTasks, Outcome, TaskKey
from reconciler.kernel.resources import ObjectKey
from reconciler.kernel.retry import exponential
from reconciler.rollout import ResolutionFailed, TagMissing

RESOLVE_TASKS = "resolve"
MISSING_TAG_SECONDS = 300.0
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0
FRESH_SECONDS = 60.0
"""For so long an answer counts that no status records, since something else has to come first: a tag may move."""


class Resolver:
    """Keeps the registry's last answer per DecisionModel and model name until it is recorded in a status."""

    def __init__(
        self,
        registry: RegistryClient,
        background: BackgroundTasks,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._background = background
        self._clock = clock
        self._failures: dict[TaskKey, int] = {}

    def answer(self, key: ObjectKey, model: str) -> ResolvedManifest | TagMissing | ResolutionFailed | None:
        """Return what the registry said about `model`; None while it has not answered."""
        outcome = self._background.outcome(TaskKey(key, RESOLVE_TASKS, model))
        if outcome is None or self._is_stale(outcome):
            return None
        if outcome.error is None:
            manifest: ResolvedManifest = outcome.value
            return manifest
        if isinstance(outcome.error, TagNotFound):
            return TagMissing(message=str(outcome.error))
        if isinstance(outcome.error, EngineError):
            return ResolutionFailed(message=str(outcome.error))
        raise outcome.error

    def ask(self, key: ObjectKey, model: str) -> float | None:
        """Ask the registry unless it was asked too recently; return the seconds until it may be asked again."""
        task = TaskKey(key, RESOLVE_TASKS, model)
        if self._background.running(task):
            return None
        outcome = self._background.outcome(task)
        if outcome is not None and outcome.error is None and not self._is_stale(outcome):
            return None
        if outcome is not None and outcome.error is not None:
            wait = self._pause(task, outcome.error) - (self._clock() - outcome.ended_at)
            if wait > 0:
                return wait
            self._failures[task] = self._failures.get(task, 0) + 1
        name = ModelName.parse(model)
        self._background.start(task, lambda: self._registry.resolve(name))
        return None

    def forget(self, key: ObjectKey) -> None:
        """Drop all answers for a DecisionModel: they are recorded, or nobody needs them any more."""
        self._background.cancel(key, RESOLVE_TASKS)
        for task in [task for task in self._failures if task.owner == key]:
            del self._failures[task]

    def _is_stale(self, outcome: Outcome) -> bool:
        return outcome.error is None and self._clock() - outcome.ended_at > FRESH_SECONDS

    def _pause(self, task: TaskKey, error: Exception) -> float:
        if isinstance(error, TagNotFound):
            return MISSING_TAG_SECONDS
        return exponential(FIRST_RETRY_SECONDS, self._failures.get(task, 0) + 1, LONGEST_RETRY_SECONDS)
