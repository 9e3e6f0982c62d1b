"""Growing the store of a running revision: the reconciler's own patch (spec section 5.10).

Whether a claim may grow is known only to the API server. Were the new size part of the stack, a refusal would block
everything else in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container
from dataclasses import dataclass

from components.desired import JsonObject
from reconciler.controller.observation import name_of, uid_of
from reconciler.controller.watched import CLAIMS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, Forbidden, Invalid, NotFound

_log = logging.getLogger(__name__)


RETRY_SECONDS = 300.0
"""Between requests for a size that was refused: a quota or a storage class may have been changed since."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    size: str
    message: str
    at: float


class StoreGrower:
    """Patches claims, and remembers per claim which size was refused, so that it is not asked for on every pass."""

    def __init__(self, client: KubernetesClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._refusals: dict[str, _Refusal] = {}

    def refusal(self, claim_uid: str, size: str) -> str:
        """Return why the claim may not grow to `size`; empty when that was not refused."""
        refused = self._refused(claim_uid, size)
        return refused.message if refused is not None else ""

    async def grow(self, claim: JsonObject, size: str) -> bool:
        """Ask for the larger size, unless that was refused a short while ago; return whether it was refused now.

        Raises:
            KubernetesError: The API server did not answer.
        """
        refused = self._refused(uid_of(claim), size)
        if refused is not None and self._clock() - refused.at < RETRY_SECONDS:
            return False
        patch = {"metadata": {"uid": uid_of(claim)}, "spec": {"resources": {"requests": {"storage": size}}}}
        try:
            await self._client.merge_patch(CLAIMS, claim["metadata"]["namespace"], name_of(claim), patch)
        except (Forbidden, Invalid) as error:
            _log.warning("claim %s cannot grow to %s: %s", name_of(claim), size, error)
            self._refusals[uid_of(claim)] = _Refusal(size, error.message, self._clock())
            return True
        except (Conflict, NotFound) as error:
            _log.info("claim %s was replaced meanwhile: %s", name_of(claim), error)
        self._refusals.pop(uid_of(claim), None)
        return False

    def _refused(self, claim_uid: str, size: str) -> _Refusal | None:
        refused = self._refusals.get(claim_uid)
        return refused if refused is not None and refused.size == size else None

    def forget_others(self, live: Container[str]) -> None:
        """Drop what is remembered about claims that are not among the `live` UIDs."""
        self._refusals = {uid: refusal for uid, refusal in self._refusals.items() if uid in live}
