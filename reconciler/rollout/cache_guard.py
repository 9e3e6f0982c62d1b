"""An edited `spec.cache` beside a store that exists already (spec section 5.10).

A claim can only grow. Every other change waits for the next revision, which gets a store of its own; until then a
condition says so, and the phase does not change.
"""

from __future__ import annotations

from collections.abc import Iterator

from api.conditions import Reason
from api.errors import InvalidQuantityError
from api.quantity import parse_quantity
from api.spec import Cache
from reconciler.rollout.decision import StoreGrowth
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import ClaimFacts, StoreState


def guard_cache(draft: Draft) -> None:
    """Let the stable's store grow, and report what it cannot follow unless something worse is reported already."""
    grow_store(draft)
    claim = _claim(draft)
    refused = () if claim is None else tuple(_immutable(draft.spec.cache, claim))
    if refused and not draft.degraded:
        draft.degrade(Reason.CACHE_SPEC_IMMUTABLE, f"{'; '.join(refused)}; the next revision follows spec.cache")


def grow_store(draft: Draft) -> None:
    """Let the stable's store grow where the spec asks for more than it has; what was refused may be granted later."""
    stable, claim, size = draft.stable, _claim(draft), str(draft.spec.cache.size)
    if stable is not None and claim is not None and _compare(size, claim.size) > 0:
        draft.grow(StoreGrowth(revision=stable.hash, size=size))


def _claim(draft: Draft) -> ClaimFacts | None:
    """Return what the stable's claim was given, None while there is none to change."""
    stable = draft.stable
    facts = None if stable is None else draft.facts.of(stable)
    return None if facts is None or facts.store is not StoreState.PRESENT else facts.claim


def _immutable(cache: Cache, claim: ClaimFacts) -> Iterator[str]:
    wanted = cache.storage_class_name
    if wanted is not None and wanted != claim.storage_class_name:
        yield f"storageClassName stays {claim.storage_class_name!r}"
    if set(cache.effective_access_modes) != set(claim.access_modes):
        yield f"accessModes stay {', '.join(claim.access_modes)}"
    if _compare(str(cache.size), claim.size) < 0:
        yield f"size stays {claim.size}, it cannot shrink"
    if claim.growth_refused:
        yield f"size stays {claim.size}: {claim.growth_refused}"


def _compare(wanted: str, live: str) -> int:
    """Return the sign of the difference of two quantities; a text that is no quantity changes nothing."""
    try:
        difference = parse_quantity(wanted) - parse_quantity(live)
    except InvalidQuantityError:
        return 0
    return (difference > 0) - (difference < 0)
