"""Looking at stacks: everything that can be found out about each, without changing any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cli.errors import InputError
from cli.state.findings import Code, Finding, orphan, stale_locks, unsound
from reconciler.driver import FailureReason
from reconciler.driver.deployment import Deployment, without
from reconciler.driver.errors import CheckpointInvalidError, DeploymentInvalidError, StateCommandError
from reconciler.driver.states import States


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the cluster says.

    Attributes:
        live: Stacks that have a DecisionModel; None when no cluster was asked.
        leader: Host that holds the Lease; None when nobody does.
    """

    live: frozenset[str] | None = None
    leader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One stack.

    Attributes:
        stack: Its name.
        deployment: Its state; None when it is unreadable, or gone meanwhile.
        findings: What is wrong.
    """

    stack: str
    deployment: Deployment | None
    findings: tuple[Finding, ...]

    def has(self, *codes: Code) -> bool:
        """Whether one of these was found."""
        return any(finding.code in codes for finding in self.findings)


async def chosen(states: States, asked: Sequence[str]) -> tuple[str, ...]:
    """Return the stacks that were asked for, all of them when none was.

    Raises:
        InputError: There is no such stack.
    """
    known = tuple(stack.name for stack in await states.stacks())
    for name in asked:
        if name not in known:
            raise InputError(f"The backend has no stack {name}.", "`dmctl state ls` lists those that it has.")
    return tuple(asked) or known


async def examine(states: States, stack: str, surroundings: Surroundings) -> Examined:
    """Look at one stack."""
    findings = [
        *orphan(stack, surroundings.live),
        *stale_locks(stack, await states.locks(stack), surroundings.leader),
    ]
    try:
        if problem := await states.tampering(stack):
            return await _suspect(states, stack, findings, problem)
        deployment = await states.export(stack)
    except (StateCommandError, CheckpointInvalidError, DeploymentInvalidError) as error:
        if not await states.exists(stack):
            return Examined(stack=stack, deployment=None, findings=())
        if isinstance(error, StateCommandError) and error.failure.reason is not FailureReason.STATE_CORRUPT:
            raise
        findings.append(Finding(stack=stack, code=Code.UNREADABLE, message=str(error)))
        return Examined(stack=stack, deployment=None, findings=tuple(findings))
    return Examined(stack=stack, deployment=deployment, findings=(*findings, *unsound(stack, deployment)))


async def _suspect(states: States, stack: str, findings: list[Finding], problem: str) -> Examined:
    """Look at a state that the CLI must not read: it may need no more than that what is foreign is taken out."""
    deployment = await states.recorded(stack)
    recorded = unsound(stack, deployment)
    foreign = {each.urn for each in recorded if each.code is Code.FOREIGN_RESOURCE and each.urn}
    if recorded and states.tampering_of(stack, without(deployment, foreign)) is None:
        return Examined(stack=stack, deployment=deployment, findings=(*findings, *recorded))
    tampered = Finding(stack=stack, code=Code.TAMPERED, message=problem)
    return Examined(stack=stack, deployment=None, findings=(*findings, tampered))


async def examine_all(
    states: States, stacks: Sequence[str], surroundings: Surroundings, tell: Callable[[str], None]
) -> list[Examined]:
    """Look at several stacks, a second each."""
    examined = []
    for number, stack in enumerate(stacks, start=1):
        tell(f"looking at {stack} ({number} of {len(stacks)})")
        examined.append(await examine(states, stack, surroundings))
    return examined
