"""Growing the store of a running revision: the reconciler's own patch (spec section 5.10).

Whether a claim may grow is known only to the API server. Were the new size part of the stack, a refusal would block
everything else in it.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass

from components.desired import JsonObject
from reconciler.controller.observation import name_of, uid_of
from reconciler.controller.watched import CLAIMS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, Forbidden, Invalid, NotFound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Refusal:
    size: str
    message: str


class StoreGrower:
    """Patches claims, and remembers per claim which size was refused, so that it is not asked for on every pass."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._refusals: dict[str, _Refusal] = {}

    def refusal(self, claim_uid: str, size: str) -> str:
        """Return why the claim may not grow to `size`; empty when that was not refused."""
        refused = self._refusals.get(claim_uid)
        return refused.message if refused is not None and refused.size == size else ""

    async def grow(self, claim: JsonObject, size: str) -> bool:
        """Ask for the larger size; return whether it was granted, False when it was refused for good.

        Raises:
            KubernetesError: The API server did not answer.
        """
        patch = {"metadata": {"uid": uid_of(claim)}, "spec": {"resources": {"requests": {"storage": size}}}}
        try:
            await self._client.merge_patch(CLAIMS, claim["metadata"]["namespace"], name_of(claim), patch)
        except (Forbidden, Invalid) as error:
            _log.warning("claim %s cannot grow to %s: %s", name_of(claim), size, error)
            self._refusals[uid_of(claim)] = _Refusal(size, error.message)
            return False
        except (Conflict, NotFound) as error:
            _log.info("claim %s was replaced meanwhile: %s", name_of(claim), error)
        return True

    def forget_others(self, live: Container[str]) -> None:
        """Drop what is remembered about claims that are not among the `live` UIDs."""
        self._refusals = {uid: refusal for uid, refusal in self._refusals.items() if uid in live}
