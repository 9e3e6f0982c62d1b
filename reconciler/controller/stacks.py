"""Carries decisions into the cluster: compares, and lets the driver converge what differs."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from api.decisionmodel import DecisionModel
from components import names
from components.desired import DesiredStack, JsonObject, Owner
from components.drift import Cause, Drift, find_drift
from components.manifests import render
from components.program import ProviderSettings, converge
from components.rivals import restored
from reconciler.controller.additions import without
from reconciler.controller.convergence import SETTLING_SECONDS, Action, Memory, Step, next_step
from reconciler.controller.observation import Children, taken_name, uid_of
from reconciler.controller.watched import BY_KIND
from reconciler.driver import Failure, FailureReason, Operation, OperationKind, Outcome, StackDriver
from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KubernetesError
from reconciler.kernel.resources import ObjectKey

STACK_TASKS = "stack"
_CONVERGENCE = "converge"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One model's stack as it should be and as it is."""

    model: DecisionModel
    desired: DesiredStack
    drift: tuple[Drift, ...]
    live: tuple[JsonObject, ...]


class StackConverger:
    """Keeps each model's stack as it was decided.

    Args:
        driver: Runs operations.
        client: Looks up names and makes the few writes the engine cannot make.
        background: Where operations run; each model has at most one.
        provider: How the engine reaches the cluster.
        deadline: Seconds one operation may take.
        observe: Told the kind and outcome of every operation.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - collaborators, each with one job
        self,
        driver: StackDriver,
        client: KubernetesClient,
        background: BackgroundTasks,
        provider: ProviderSettings,
        *,
        deadline: float,
        observe: Callable[[Outcome], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._client = client
        self._background = background
        self._provider = provider
        self._deadline = deadline
        self._observe = observe
        self._clock = clock
        self._memories: dict[str, Memory] = {}
        self._conflicts: dict[str, Drift] = {}
        self._running: dict[str, DesiredStack] = {}
        # Many go at once, with their namespace: a worker stays for those that live.
        self._removals = asyncio.Semaphore(1)

    def failure(self, model: DecisionModel) -> str | None:
        """Return why the stack is not as declared: the last operation failed, or does not last; None otherwise."""
        memory = self._memories.get(model.metadata.uid, Memory())
        if memory.failure is not None:
            return f"{memory.failure.reason}: {memory.failure.message}"
        return _contest(memory.contested(self._clock()), model)

    def declared(self, model: DecisionModel) -> DesiredStack | None:
        """Return what an operation is converging to, if one runs or the watch cache may not show its end yet."""
        uid = model.metadata.uid
        if uid in self._running:
            return self._running[uid]
        memory = self._memories.get(uid, Memory())
        return memory.applied if self._clock() - memory.ended_at < SETTLING_SECONDS else None

    def is_busy(self, model: DecisionModel) -> bool:
        """Whether an operation for the model is under way, or waits for its turn."""
        return self._background.running(TaskKey(_key(model), STACK_TASKS, _CONVERGENCE))

    async def conflict(self, model: DecisionModel) -> str | None:
        """Look again at the foreign object that blocked the last operation; None when it blocks no more."""
        known = self._conflicts.get(model.metadata.uid)
        if known is None:
            return None
        return await self._foreign(known.kind, known.name, model)

    async def foreign_service(self, model: DecisionModel) -> str | None:
        """Look up the Service's name before a promotion depends on it (spec section 5.6 step 1)."""
        return await self._foreign("Service", names.service(model.metadata.name), model)

    def converge(self, model: DecisionModel, desired: DesiredStack, children: Children) -> float | None:
        """Start whatever the stack needs; return the seconds after which to look again, if that is known."""
        key = _key(model)
        task = TaskKey(key, STACK_TASKS, _CONVERGENCE)
        if self._background.running(task):
            return None
        self._background.take(task)
        live = children.of_stack()
        drift = find_drift(render(desired), live, desired.owner.uid)
        memory = self._memories.get(desired.owner.uid, Memory())
        step = next_step(desired, drift, memory, self._clock(), empty=not live)
        if step.action is Action.WAIT:
            return step.seconds
        if step.action is Action.CONFLICT:
            self._conflicts[desired.owner.uid] = next(each for each in drift if each.cause is Cause.FOREIGN)
            return 0.0
        if step.action is Action.NOTHING:
            return self._settle(desired.owner.uid, memory)
        work = _Work(model=model, desired=desired, drift=drift, live=live)
        self._background.start(task, functools.partial(self._carry_out, step, work))
        return None

    def _settle(self, uid: str, memory: Memory) -> float | None:
        """Tell of a failure no longer once nothing differs: what failed is not asked for any more, or was done."""
        if memory.failure is None:
            return None
        self._memories[uid] = memory.settled()
        return 0.0

    def stop(self, key: ObjectKey) -> None:
        """End the operation that runs for a DecisionModel."""
        self._background.cancel(key, STACK_TASKS, _CONVERGENCE)

    def forget(self, key: ObjectKey, uid: str) -> None:
        """Drop the stack of a deleted DecisionModel; the garbage collector deletes its objects.

        An operation for it ends as well: in a namespace that went with it, the engine would try for a minute, and every
        other DecisionModel would wait for its turn.
        """
        self.stop(key)
        self._memories.pop(uid, None)
        self._conflicts.pop(uid, None)
        stack = names.stack(Owner(namespace=key.namespace, name=key.name, uid=uid))
        task = TaskKey(key, STACK_TASKS, f"remove {uid}")
        self._background.start(task, lambda: self._remove_unasked(stack), keep_outcome=False)

    async def remove(self, stack: str) -> None:
        """Drop one stack and its state without touching the cluster."""
        operation = Operation(
            kind=OperationKind.REMOVE,
            stack=stack,
            deadline_seconds=self._deadline,
            tenant=stack.partition(".")[0],
        )
        async with self._removals:
            self._report(await self._driver.run(operation))

    async def _remove_unasked(self, stack: str) -> None:
        """Drop one stack for nobody who would look at how that ends."""
        try:
            await self.remove(stack)
        except Exception:  # noqa: BLE001 - nobody else would hear of it
            _log.exception("stack %s stays until the next start", stack)

    async def sweep_orphans(self, live: Callable[[], Iterable[Owner]], namespaces: tuple[str, ...]) -> int:
        """Drop the stacks of DecisionModels that were deleted while nobody watched; return how many.

        Args:
            live: The DecisionModels that exist; asked after the backend, so that none created meanwhile is missed.
            namespaces: Those being watched, empty for all; stacks of others are not ours to judge.
        """
        stacks = await self._driver.stacks()
        expected = {names.stack(owner) for owner in live()}
        orphans = [stack for stack in stacks if stack not in expected and names.is_stack_in(stack, namespaces)]
        for stack in orphans:
            await self.remove(stack)
        return len(orphans)

    async def _carry_out(self, step: Step, work: _Work) -> None:
        """Do what `step` says and remember how it went; nothing that can go wrong here escapes unnoticed."""
        uid = work.desired.owner.uid
        memory = self._memories.get(uid, Memory())
        self._running[uid] = work.desired
        try:
            failure = await self._act(step, work)
        except KubernetesError as error:
            failure = Failure(reason=FailureReason.UNREACHABLE, message=str(error))
            _log.warning("stack of %s: %s", work.model.namespaced_name, error)
        except Exception as error:  # noqa: BLE001 - a bug must not be repeated without a pause either
            failure = Failure(reason=FailureReason.UNKNOWN, message=repr(error))
            _log.exception("stack of %s: an error that nobody foresaw", work.model.namespaced_name)
        finally:
            del self._running[uid]
        if failure is not None:
            self._memories[uid] = memory.broke(work.desired, work.drift, failure, self._clock())
        elif uid not in self._conflicts:
            self._memories[uid] = memory.succeeded(work.desired, work.drift, self._clock())

    async def _act(self, step: Step, work: _Work) -> Failure | None:
        if step.operation is not None:
            return await self._operate(step.operation, work)
        if step.action is Action.PRUNE:
            await self._prune(work)
        elif step.action is Action.SWEEP:
            await self._sweep(work)
        return None

    async def _operate(self, kind: OperationKind, work: _Work) -> Failure | None:
        uid = work.desired.owner.uid
        if foreign := await self._first_foreign(work):
            self._conflicts[uid] = foreign
            return None
        self._conflicts.pop(uid, None)
        await self._make_way(work)
        operation = Operation(
            kind=kind,
            stack=names.stack(work.desired.owner),
            program=functools.partial(converge, work.desired, self._provider),
            deadline_seconds=self._deadline,
            # Where traffic has to move, clients may be at a revision that fails: a fleet's repairs can wait.
            urgent=any(each.kind == "Service" for each in work.drift),
            tenant=work.desired.owner.namespace,
        )
        outcome = await self._driver.run(operation)
        self._report(outcome)
        return outcome.failure

    async def _make_way(self, work: _Work) -> None:
        """Take back what the API server does not let the engine put ours beside."""
        changed = {(each.kind, each.name) for each in work.drift if each.cause is Cause.CHANGED}
        live = {(obj["kind"], obj["metadata"]["name"]): obj for obj in work.live}
        for manifest in render(work.desired):
            if manifest.key not in changed or (ours := restored(manifest.object, live[manifest.key])) is None:
                continue
            _log.info("taking back fields of %s %s that exclude ours", manifest.kind, manifest.name)
            namespace = work.desired.owner.namespace
            await self._client.replace(BY_KIND[manifest.kind], namespace, manifest.name, ours)

    async def _first_foreign(self, work: _Work) -> Drift | None:
        """Look up every name that is about to be created: the watch cache shows only what carries our label."""
        missing = [each for each in work.drift if each.cause is Cause.MISSING]
        found = await asyncio.gather(*(self._foreign(each.kind, each.name, work.model) for each in missing))
        return next((each for each, foreign in zip(missing, found, strict=True) if foreign), None)

    async def _foreign(self, kind: str, name: str, model: DecisionModel) -> str | None:
        namespace = model.metadata.namespace
        return taken_name(await self._client.get(BY_KIND[kind], namespace, name), kind, model.metadata.uid)

    async def _prune(self, work: _Work) -> None:
        for obj in work.live:
            kind, metadata = obj["kind"], obj["metadata"]
            paths = tuple(each.path for each in work.drift if (each.kind, each.name) == (kind, metadata["name"]))
            if paths:
                _log.info("removing %s from %s %s", ", ".join(paths), kind, metadata["name"])
                pruned = without(obj, paths)
                await self._client.replace(BY_KIND[kind], metadata["namespace"], metadata["name"], pruned)

    async def _sweep(self, work: _Work) -> None:
        unexpected = {(each.kind, each.name) for each in work.drift}
        for obj in work.live:
            kind, metadata = obj["kind"], obj["metadata"]
            if (kind, metadata["name"]) in unexpected:
                _log.info("deleting %s %s, which no stack knows", kind, metadata["name"])
                await self._client.delete(
                    BY_KIND[kind], metadata["namespace"], metadata["name"], uid=uid_of(obj), propagation="Background"
                )

    def _report(self, outcome: Outcome) -> None:
        self._observe(outcome)
        if outcome.failure is None:
            _log.info(
                "%s of stack %s took %.2f s: %s", outcome.kind, outcome.stack, outcome.seconds, dict(outcome.changes)
            )
        else:
            _log.warning(
                "%s of stack %s failed: %s: %s",
                outcome.kind,
                outcome.stack,
                outcome.failure.reason,
                outcome.failure.message,
            )


def _contest(contested: tuple[Drift, ...], model: DecisionModel) -> str | None:
    """Say what is set otherwise as often as it is repaired, and how to find by whom."""
    if not contested:
        return None
    first, more = contested[0], f" and {len(contested) - 1} more" if len(contested) > 1 else ""
    what = f"{first.path} of {first.kind} {first.name}" if first.path else f"{first.kind} {first.name}"
    shown = f"kubectl get {first.kind.lower()} {first.name} -n {model.metadata.namespace} -o yaml --show-managed-fields"
    return f"{what}{more} is put right and set otherwise again and again; find by whom: {shown}"


def _key(model: DecisionModel) -> ObjectKey:
    return ObjectKey(model.metadata.namespace, model.metadata.name)
