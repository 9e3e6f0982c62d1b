"""A stack driver without an engine: it converges objects on the fake API server by the engine's rules.

Those that matter to the controller (measured on the real one, see the driver's own tests): an `up` compares the program
with the recorded state and never looks at the cluster, a refreshing one does; a failed operation may have changed
anything; what the state does not know is never touched; a Job's spec and a claim's class never change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from api.keys import STACK_FIELD_MANAGER
from components.desired import DesiredStack, Owner
from components.manifests import Manifest, ObjectKey, render
from components.subset import differing_paths
from reconciler.controller.watched import BY_KIND
from reconciler.driver import Failure, FailureReason, Operation, OperationKind, Outcome, StackDriver
from reconciler.turns import FairSlots
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.apistore import Target
from tests.fakes.json_copy import json_copy

Object = dict[str, Any]


@dataclass(frozen=True)
class Performed:
    """An operation, and what the API server held of the DecisionModel when it began."""

    kind: OperationKind
    stack: str
    desired: DesiredStack | None
    model: Object | None
    urgent: bool


@dataclass
class Trouble:
    """How the next operations go wrong: after so many objects, with that reason; None for a hang."""

    reason: FailureReason | None
    message: str = "injected"
    after: int = 0
    times: float = 1
    error: Exception | None = None
    """Raised instead: what a driver promises never to do."""


class FakeDriver(StackDriver):
    """Carries operations out on a fake API server; its states survive as a backend's do."""

    def __init__(self, server: FakeApiServer, states: dict[str, dict[ObjectKey, Object]]) -> None:
        self._server = server
        self.states = states
        self.performed: list[Performed] = []
        self.trouble: list[Trouble] = []
        self.hanging = 0
        self.turns = FairSlots(1)
        """Nobody waits: every operation has its worker."""
        self.removals_may_end = asyncio.Event()
        self.removals_may_end.set()
        self.before_write: Callable[[], Awaitable[None]] = _nothing
        self.on_close: Callable[[float | None], None] = lambda _: None
        """Told how long operations had to save their state."""

    async def start(self) -> None:
        """Nothing to warm up."""

    async def close(self, grace_seconds: float, save_seconds: float | None = None) -> None:  # noqa: ARG002 - the driver's
        self.on_close(save_seconds)

    async def stacks(self) -> tuple[str, ...]:
        return tuple(sorted(self.states))

    async def run(self, operation: Operation) -> Outcome:
        desired = None if operation.program is None else operation.program.args[0]  # type: ignore[attr-defined]  # a partial
        self.performed.append(
            Performed(operation.kind, operation.stack, desired, self._model(desired), operation.urgent)
        )
        if operation.kind is OperationKind.REMOVE:
            await self.removals_may_end.wait()
            self.states.pop(operation.stack, None)
            return Outcome(stack=operation.stack, kind=operation.kind, failure=None, seconds=0.0)
        assert desired is not None
        trouble = self._next_trouble()
        failure = await self._converge(operation, desired, trouble)
        return Outcome(stack=operation.stack, kind=operation.kind, failure=failure, seconds=0.25)

    @property
    def kinds(self) -> list[OperationKind]:
        """The kinds of all operations so far."""
        return [each.kind for each in self.performed]

    def _model(self, desired: DesiredStack | None) -> Object | None:
        if desired is None:
            return None
        owner: Owner = desired.owner
        found = self._server.object("decisionmodel.io/v1alpha1", "decisionmodels", owner.namespace, owner.name)
        return json_copy(found)

    def _next_trouble(self) -> Trouble | None:
        for trouble in self.trouble:
            if trouble.times > 0:
                trouble.times -= 1
                return trouble
        return None

    async def _converge(self, operation: Operation, desired: DesiredStack, trouble: Trouble | None) -> Failure | None:
        state = self.states.setdefault(operation.stack, {})
        refresh = operation.kind is OperationKind.REFRESH_UP
        manifests = render(desired)
        for number, manifest in enumerate(manifests):
            if trouble is not None and number == min(trouble.after, len(manifests) - 1):
                return await self._fail(trouble)
            if refresh or state.get(manifest.key) != manifest.object:
                await self._apply(manifest)
            state[manifest.key] = json_copy(dict(manifest.object))
        for key in [key for key in state if key not in {each.key for each in manifests}]:
            await self._delete(desired.owner.namespace, key)
            del state[key]
        return None

    async def _fail(self, trouble: Trouble) -> Failure:
        if trouble.error is not None:
            raise trouble.error
        if trouble.reason is None:
            self.hanging += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.hanging -= 1
        assert trouble.reason is not None
        return Failure(reason=trouble.reason, message=trouble.message)

    async def _apply(self, manifest: Manifest) -> None:
        target = self._target(manifest.object["metadata"]["namespace"], manifest.key)
        live, wanted = self._server.store.find(target), json_copy(dict(manifest.object))
        if live is not None and manifest.kind == "Job":
            wanted["spec"] = live["spec"]
        if live is not None and not any(differing_paths(wanted, live)):
            return
        await self.before_write()
        self._server.store.apply(target, wanted, STACK_FIELD_MANAGER)

    async def _delete(self, namespace: str, key: ObjectKey) -> None:
        target = self._target(namespace, key)
        if self._server.store.find(target) is not None:
            await self.before_write()
            self._server.store.delete(target)

    @staticmethod
    def _target(namespace: str, key: ObjectKey) -> Target:
        resource = BY_KIND[key.kind]
        return Target(resource.api_version, resource.plural, namespace, key.name)


async def _nothing() -> None:
    """Go on at once."""
