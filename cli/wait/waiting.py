"""Waiting for one DecisionModel, by the judgement that the wait of `pulumi up` uses as well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from api.keys import RETRY_ANNOTATION
from cli.connection import Cluster, ClusterOptions, open_cluster
from cli.errors import ExitCode, InputError
from components.desired import JsonObject
from components.platform.readiness import Progress, Waiting, follow
from reconciler.controller.watched import DECISION_MODELS
from reconciler.kernel.errors import KernelError

_GOING_ON: Final = frozenset({Progress.UNDER_WAY, Progress.AWAITING_APPROVAL})
_CODES: Final = {Progress.READY: ExitCode.CLEAN, Progress.REJECTED: ExitCode.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a wait ended.

    Attributes:
        name: Namespace and name.
        progress: How far the model was.
        told: Its phase, and the condition that says most.
        next_step: What to do; empty when there is nothing to do.
    """

    name: str
    progress: Progress
    told: str
    next_step: str

    @property
    def code(self) -> ExitCode:
        """The exit code: what is neither ready nor given up ran out of time."""
        return _CODES.get(self.progress, ExitCode.FINDINGS)

    def fields(self) -> dict[str, str | int]:
        """Return the ending as JSON."""
        name, progress = self.name, str(self.progress)
        return {"name": name, "progress": progress, "message": self.told, "next": self.next_step, "code": self.code}


async def wait_for(name: str, options: ClusterOptions, seconds: float, report: Callable[[str], None]) -> Ending:
    """Wait for the DecisionModel `name`, telling `report` each change.

    Raises:
        InputError: The cluster cannot be asked, or there is no such DecisionModel.
    """
    async with open_cluster(options) as cluster:
        namespace = options.namespace or cluster.namespace
        waiting = Waiting(
            read=lambda where, which: _read(cluster, where, which),
            sleep=asyncio.sleep,
            clock=time.monotonic,
            report=report,
        )
        try:
            verdicts = await follow([(namespace, name)], waiting, seconds, _GOING_ON)
        except KernelError as error:
            raise InputError(str(error), "Reading DecisionModels has to be allowed.") from error
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise InputError(f"DecisionModel {namespace}/{name} in the cluster cannot be read: {problem}") from error
        except ValueError as error:
            raise InputError(f"DecisionModel {name[:80]!r}: {error}") from error
    (verdict,) = verdicts.values()
    return Ending(
        name=f"{namespace}/{name}",
        progress=verdict.progress,
        told=f"{verdict.progress}: {verdict.message}",
        next_step=_next_step(verdict.progress, namespace, name),
    )


async def _read(cluster: Cluster, namespace: str, name: str) -> JsonObject:
    found = await cluster.reader.get(DECISION_MODELS, namespace, name)
    if found is None:
        raise InputError(f"there is no DecisionModel {namespace}/{name}; -n names another namespace")
    return found


def _next_step(progress: Progress, namespace: str, name: str) -> str:
    match progress:
        case Progress.READY:
            return ""
        case Progress.REJECTED:
            retry = f"kubectl annotate dm {name} -n {namespace} --overwrite {RETRY_ANNOTATION}=<a new value>"
            return f"Mend what is named, or change the spec; to try the same again: {retry}"
        case Progress.UNDER_WAY | Progress.AWAITING_APPROVAL:
            return f"Wait longer with --timeout, or see why: kubectl describe dm {name} -n {namespace}"
