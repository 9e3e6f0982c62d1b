"""The evidence ConfigMap: what a statistical verdict rests on, kept beside the revision it is about."""

from __future__ import annotations

import logging

from api.decisionmodel import DecisionModel
from components import names
from components.desired import Owner
from components.manifests import evidence_config_map
from reconciler.controller.owned_config_maps import OwnedConfigMaps
from reconciler.controller.rendering import owner_of

_log = logging.getLogger(__name__)


class EvidenceKeeper:
    """Writes and deletes evidence ConfigMaps."""

    def __init__(self, config_maps: OwnedConfigMaps) -> None:
        self._config_maps = config_maps

    async def keep(self, model: DecisionModel, revision: str, document: bytes) -> None:
        """Keep the evidence of a revision in place of an earlier one.

        Raises:
            KubernetesError: It could not be written.
        """
        owner = owner_of(model)
        await self.drop(owner, revision)
        if not await self._config_maps.create(owner, evidence_config_map(owner, revision, document)):
            _log.warning("the evidence of revision %s is not kept: its name is taken", revision)

    async def drop(self, owner: Owner, revision: str) -> None:
        """Delete the evidence of a revision if there is any."""
        await self._config_maps.delete(owner, names.evidence_config_map(owner.name, revision))
