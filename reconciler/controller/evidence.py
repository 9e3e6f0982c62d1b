"""The evidence ConfigMap: what a statistical verdict rests on, kept beside the revision it is about.

Like the manifest ConfigMap it is the reconciler's own write: created, read and deleted by name.
"""

from __future__ import annotations

import logging

from api.decisionmodel import DecisionModel
from components import names
from components.desired import Owner
from components.manifests import evidence_config_map
from reconciler.controller.observation import controller_uid, uid_of
from reconciler.controller.rendering import owner_of
from reconciler.controller.watched import CONFIG_MAPS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, Conflict

_log = logging.getLogger(__name__)


class EvidenceKeeper:
    """Writes and deletes evidence ConfigMaps."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client

    async def keep(self, model: DecisionModel, revision: str, document: bytes) -> None:
        """Keep the evidence of a revision in place of an earlier one.

        Raises:
            KubernetesError: It could not be written.
        """
        owner = owner_of(model)
        await self.drop(owner, revision)
        try:
            await self._client.create(CONFIG_MAPS, owner.namespace, evidence_config_map(owner, revision, document))
        except AlreadyExists:
            _log.warning("the evidence of revision %s is not kept: its name is taken", revision)

    async def drop(self, owner: Owner, revision: str) -> None:
        """Delete the evidence of a revision if there is any and it is the owner's."""
        name = names.evidence_config_map(owner.name, revision)
        found = await self._client.get(CONFIG_MAPS, owner.namespace, name)
        if found is None or controller_uid(found) != owner.uid:
            return
        try:
            await self._client.delete(CONFIG_MAPS, owner.namespace, name, uid=uid_of(found))
        except Conflict:
            _log.info("ConfigMap %s was replaced meanwhile", name)
