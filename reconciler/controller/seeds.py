"""The manifest ConfigMap: the very bytes a tag was resolved to, kept beside the digest (spec section 4.2).

It is the reconciler's own write and no part of the stack: it must exist before the digest is recorded in the status,
and the account may only create, get and delete ConfigMaps.
"""

from __future__ import annotations

import logging

from components import names
from components.desired import Owner
from components.manifests import MANIFEST_SIZE_LIMIT, manifest_config_map
from reconciler.controller.observation import controller_uid, uid_of
from reconciler.controller.watched import CONFIG_MAPS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, Conflict

_log = logging.getLogger(__name__)


class Seeds:
    """Writes, finds and deletes manifest ConfigMaps."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client

    async def keep(self, owner: Owner, revision: str, content: bytes) -> None:
        """Create the ConfigMap of a revision; one that is there already is left as it is."""
        if len(content) > MANIFEST_SIZE_LIMIT:
            _log.warning("the manifest of revision %s has %d bytes and is not kept", revision, len(content))
            return
        manifest = manifest_config_map(owner, revision, content)
        try:
            await self._client.create(CONFIG_MAPS, owner.namespace, manifest)
        except AlreadyExists:
            _log.info("the manifest of revision %s is kept already", revision)

    async def exists(self, owner: Owner, revision: str) -> bool:
        """Whether the ConfigMap of a revision exists and is the owner's."""
        found = await self._client.get(CONFIG_MAPS, owner.namespace, names.manifest_config_map(owner.name, revision))
        return found is not None and controller_uid(found) == owner.uid

    async def drop(self, owner: Owner, revision: str) -> None:
        """Delete the ConfigMap of a revision if it is the owner's."""
        name = names.manifest_config_map(owner.name, revision)
        found = await self._client.get(CONFIG_MAPS, owner.namespace, name)
        if found is None or controller_uid(found) != owner.uid:
            return
        try:
            await self._client.delete(CONFIG_MAPS, owner.namespace, name, uid=uid_of(found))
        except Conflict:
            _log.info("ConfigMap %s was replaced meanwhile", name)
