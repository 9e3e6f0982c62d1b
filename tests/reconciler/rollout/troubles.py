"""What the tables of the specification are about: troubles of a rollout, and worlds to bring them about in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.conditions import Reason
from api.status import RevisionStatus
from reconciler.rollout import Decision, PrefetchFacts, PrefetchState, Refusal, ResolutionFailed, TagMissing
from tests.reconciler.rollout.worlds import World

SECURITY = (Reason.INVALID_MODEL_NAME, Reason.REGISTRY_NOT_ALLOWED, Reason.IMAGE_OVERRIDE_NOT_ALLOWED)
CONFIGURATION = (
    Reason.INVALID_RUNTIME_VERSION,
    Reason.RUNTIME_VERSION_UNSUPPORTED,
    Reason.UNPINNED_RUNTIME_IMAGE,
    Reason.API_KEY_INVALID,
    Reason.SECRET_NOT_ALLOWED,
    Reason.DOWNLOAD_TOKEN_INVALID,
)

Trouble = Callable[[World], Decision]
"""Brings a trouble about in a world whose spec asks for a revision that does not serve yet; returns what is decided."""


def rows(*table: tuple[Any, ...]) -> list[Any]:
    """Make parameters of a table whose first column is the id: the section and the row."""
    return [pytest.param(*row, id=title) for title, *row in table]


def serving_world(**spec: Any) -> World:
    """A DecisionModel whose first revision has served beyond its window."""
    world = World(spec=spec)
    world.rolled_out("laya:en")
    world.settled()
    return world


def promoted_world(**spec: Any) -> World:
    """A DecisionModel whose second revision was just promoted and is reached by traffic."""
    world = World(spec=spec)
    world.rolled_out("laya:en")
    world.rolled_out("laya:multilingual")
    return world


def refused(reason: Reason) -> Trouble:
    def bring_about(world: World) -> Decision:
        world.more = {"preflight": Refusal(reason=reason, message="no")}
        return world.reconcile()

    return bring_about


def misconfigured(reason: Reason) -> Trouble:
    def bring_about(world: World) -> Decision:
        world.more = {"refusals": (Refusal(reason=reason, message="mend it"),)}
        return world.reconcile()

    return bring_about


def tag_missing(world: World) -> Decision:
    world.resolution = TagMissing(message="no such tag")
    return world.reconcile()


def registry_failing(world: World) -> Decision:
    world.resolution = ResolutionFailed(message="timeout")
    return world.reconcile()


def prefetch_failed(world: World) -> Decision:
    world.reconcile()
    world.prefetched(wanted_of(world), PrefetchFacts(state=PrefetchState.FAILED, failure="Transient"))
    return world.reconcile()


def cached_too_slowly(world: World) -> Decision:
    world.reconcile()
    world.passes(1801)
    return world.reconcile()


def started_too_slowly(world: World) -> Decision:
    world.reconcile()
    world.prefetched(wanted_of(world))
    world.reconcile()
    world.passes(601)
    return world.reconcile()


def queued(world: World) -> Decision:
    world.more = {"rollout_limit": 1}
    return world.reconcile()


def conflicting(world: World) -> Decision:
    world.more = {"conflict": "Service default/router is another's"}
    return world.reconcile()


def wanted_of(world: World) -> RevisionStatus:
    candidate = world.status.candidate_revision
    assert candidate is not None
    return candidate
