"""Changing states: each change is planned first, so that a dry run and the real one say the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cli.state.examining import Examined
from cli.state.findings import Code
from reconciler.driver.deployment import without
from reconciler.driver.states import States


class Change(StrEnum):
    """What is done to a stack. Closed; part of the JSON output."""

    UNLOCK = "Unlock"
    START_ANEW = "StartAnew"
    TAKE_OUT = "TakeOut"
    RESTORE = "Restore"
    CREATE = "Create"
    DROP = "Drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One change of one stack."""

    stack: str
    change: Change
    message: str


def repairs(examined: Examined) -> list[Planned]:
    """Return what puts a state right; that a stack is orphaned is not its state's fault."""
    stack, planned = examined.stack, []
    if examined.has(Code.STALE_LOCK):
        planned.append(Planned(stack=stack, change=Change.UNLOCK, message="delete the locks of dead processes"))
    if examined.has(Code.UNREADABLE):
        message = "keep a copy of the unreadable state and start an empty one; its objects are taken over by owner"
        planned.append(Planned(stack=stack, change=Change.START_ANEW, message=message))
    if examined.has(Code.TAMPERED):
        message = "keep a copy of the tampered state and start an empty one; its objects are taken over by owner"
        planned.append(Planned(stack=stack, change=Change.START_ANEW, message=message))
    if examined.has(Code.FOREIGN_RESOURCE, Code.PENDING_OPERATION):
        message = "record no more what is foreign or pending; nothing in the cluster is touched"
        planned.append(Planned(stack=stack, change=Change.TAKE_OUT, message=message))
    return planned


def removal(examined: Examined) -> list[Planned]:
    """Return what drops an orphaned stack, whatever state it is in."""
    first = [each for each in repairs(examined) if each.change in {Change.UNLOCK, Change.START_ANEW}]
    message = "forget the stack and its history; nothing in the cluster is touched"
    return [*first, Planned(stack=examined.stack, change=Change.DROP, message=message)]


def restoration(stack: str, file: str, *, exists: bool) -> list[Planned]:
    """Return what puts an exported state in its place."""
    missing = [] if exists else [Planned(stack=stack, change=Change.CREATE, message="make the stack")]
    return [*missing, Planned(stack=stack, change=Change.RESTORE, message=f"take the state from {file}")]


async def carry_out(states: States, planned: Planned, examined: Examined, directory: Path) -> None:
    """Make one change of `repairs` or `removal`; copies of unreadable states go to `directory`."""
    stack = planned.stack
    match planned.change:
        case Change.UNLOCK:
            await states.unlock(stack)
        case Change.START_ANEW:
            for name, data in (await states.raw(stack)).items():
                (directory / f"{name}.unreadable").write_bytes(data)
            await states.start_anew(stack)
        case Change.TAKE_OUT if examined.deployment is not None:
            foreign = {each.urn for each in examined.findings if each.code is Code.FOREIGN_RESOURCE and each.urn}
            await states.replace(stack, without(examined.deployment, foreign))
        case Change.DROP:
            await states.drop(stack)
