"""Asking one Pod all cases of a data set, one after the other (spec section 7.2).

The only part of this package that does anything: everything else is arithmetic. A run keeps no state outside its call,
so a cancelled one leaves nothing behind; states, answers and keys are never logged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from reconciler.engine.decisions import Answer, Enquiry
from reconciler.engine.errors import RuntimeCallError, RuntimeRejected
from reconciler.engine.runtime import DECISION_SECONDS, RuntimeClient
from reconciler.evaluation.dataset import Case, Dataset
from reconciler.evaluation.errors import CaseRejected, RunInvalid
from reconciler.evaluation.scoring import score_case
from reconciler.evaluation.table import Item

RETRY_AFTER_LIMIT_SECONDS: Final = 30.0
"""The longest wait before the one retry of a case, whatever the runtime asks for."""

_RETRY_AFTER_SECONDS: Final = 1.0
_QUEUE_FULL: Final = "QUEUE_FULL"
_SERVICE_UNAVAILABLE: Final = 503
_CLIENT_ERRORS: Final = range(400, 500)
# They say something about the moment or the key, not about the case.
_PASSING: Final = frozenset({401, 403, 408, 409, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPod:
    """A Pod to ask: its IP, the model by the runtime's name, and the bearer key, None without authentication."""

    address: str
    model: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Asks Pods and scores what they answer.

    `clock` gives seconds that never go back, for latencies; `sleep` waits before a retry. A call may take
    `case_seconds`.
    """

    client: RuntimeClient
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    case_seconds: float = DECISION_SECONDS

    async def score_revision(self, pod: ServingPod, dataset: Dataset, tolerance: Fraction) -> tuple[Item, ...]:
        """The items of all cases, in the data set's order. The whole run is as long as the caller lets it be.

        Args:
            pod: A Pod that serves the revision.
            dataset: What to ask.
            tolerance: How far a score may be off where a case does not say (`Policy.tolerance`).

        Raises:
            CaseRejected: The runtime refuses a case for good.
            RunInvalid: The Pod could not be asked; try again later.
        """
        items: list[Item] = []
        for case in dataset.cases:
            answers, seconds = await self._answers(pod, case)
            items += score_case(case, answers, tolerance, seconds)
        return tuple(items)

    async def _answers(self, pod: ServingPod, case: Case) -> tuple[Mapping[str, Answer], float]:
        """The answers to a case and how long they took, asking a second time when the queue was full."""
        try:
            return await self._timed_answers(pod, case)
        except RuntimeRejected as rejected:
            if not _is_queue_full(rejected):
                raise _run_error(rejected, case) from rejected
            wait = rejected.retry_after_seconds
        except RuntimeCallError as error:
            raise _run_error(error, case) from error
        await self.sleep(min(_RETRY_AFTER_SECONDS if wait is None else wait, RETRY_AFTER_LIMIT_SECONDS))
        try:
            return await self._timed_answers(pod, case)
        except RuntimeCallError as error:
            raise _run_error(error, case) from error

    async def _timed_answers(self, pod: ServingPod, case: Case) -> tuple[Mapping[str, Answer], float]:
        enquiry = Enquiry(pod.model, case.state, case.questions)
        started = self.clock()
        answers = await self.client.ask(pod.address, enquiry, pod.api_key, timeout_seconds=self.case_seconds)
        return answers, self.clock() - started


def _is_queue_full(rejected: RuntimeRejected) -> bool:
    return rejected.status == _SERVICE_UNAVAILABLE and rejected.code == _QUEUE_FULL


def _run_error(error: RuntimeCallError, case: Case) -> CaseRejected | RunInvalid:
    """What a failed call means for the run."""
    if isinstance(error, RuntimeRejected) and error.status in _CLIENT_ERRORS and error.status not in _PASSING:
        return CaseRejected(str(error), line=case.line)
    return RunInvalid(f"line {case.line}: {error}")
