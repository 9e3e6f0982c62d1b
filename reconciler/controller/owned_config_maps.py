"""ConfigMaps that are the reconciler's own write and no part of a stack: created, read and deleted by name.

The account may do nothing else with ConfigMaps; what is not controlled by the DecisionModel is never touched.
"""

from __future__ import annotations

import logging
from typing import Any

from components.desired import Owner
from reconciler.controller.observation import controller_uid, uid_of
from reconciler.controller.watched import CONFIG_MAPS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, Conflict
from reconciler.kernel.resources import KubernetesObject

_log = logging.getLogger(__name__)


class OwnedConfigMaps:
    """Creates, finds and deletes ConfigMaps of DecisionModels."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client

    async def find(self, owner: Owner, name: str) -> KubernetesObject | None:
        """Return a ConfigMap if it exists and is the owner's."""
        found = await self._client.get(CONFIG_MAPS, owner.namespace, name)
        return found if found is not None and controller_uid(found) == owner.uid else None

    async def create(self, owner: Owner, manifest: dict[str, Any]) -> bool:
        """Create a ConfigMap; return False when there is one already, which is left as it is, whoever's it is."""
        try:
            await self._client.create(CONFIG_MAPS, owner.namespace, manifest)
        except AlreadyExists:
            return False
        return True

    async def delete(self, owner: Owner, name: str) -> None:
        """Delete a ConfigMap if it exists and is the owner's."""
        found = await self.find(owner, name)
        if found is None:
            return
        try:
            await self._client.delete(CONFIG_MAPS, owner.namespace, name, uid=uid_of(found))
        except Conflict:
            _log.info("ConfigMap %s was replaced meanwhile", name)
