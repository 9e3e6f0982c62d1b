"""The manifest ConfigMap: the very bytes a tag was resolved to, kept beside the digest (spec section 4.2).

It must exist before the digest is recorded in the status, so the stack could not hold it.

The verified bytes stay in memory while their revision is in use, so that a ConfigMap which somebody broke can be made
again. A process that has taken over does not have them; the prefetch Job then does without.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging

from components import names, paths
from components.desired import JsonObject, Owner
from components.manifests import MANIFEST_SIZE_LIMIT, manifest_config_map
from reconciler.controller.owned_config_maps import OwnedConfigMaps
from reconciler.kernel.resources import KubernetesObject
from reconciler.rollout import ManifestState

_log = logging.getLogger(__name__)


class Seeds:
    """Writes, finds, repairs and deletes manifest ConfigMaps."""

    def __init__(self, config_maps: OwnedConfigMaps) -> None:
        self._config_maps = config_maps
        self._verified: dict[tuple[str, str], bytes] = {}

    async def keep(self, owner: Owner, revision: str, content: bytes) -> None:
        """Create the ConfigMap of a revision; one that is there already is left as it is.

        Args:
            owner: The DecisionModel.
            revision: The revision's hash.
            content: Bytes whose SHA-256 is the revision's digest.
        """
        if len(content) > MANIFEST_SIZE_LIMIT:
            _log.warning("the manifest of revision %s has %d bytes and is not kept", revision, len(content))
            return
        self._verified[owner.uid, revision] = content
        if not await self._config_maps.create(owner, manifest_config_map(owner, revision, content)):
            _log.info("the manifest of revision %s is kept already", revision)

    async def state(self, owner: Owner, revision: str, digest: str) -> ManifestState:
        """Return whether the ConfigMap of a revision still holds the bytes of its digest."""
        found = await self._own(owner, revision)
        if found is not None and _digest_of(found) == digest:
            return ManifestState.SOUND
        return ManifestState.REPAIRABLE if (owner.uid, revision) in self._verified else ManifestState.LOST

    async def digest(self, owner: Owner, revision: str) -> str | None:
        """Return the SHA-256 of what the ConfigMap of a revision holds; None without one of the owner's."""
        found = await self._own(owner, revision)
        return None if found is None else _digest_of(found)

    async def exists(self, owner: Owner, revision: str) -> bool:
        """Whether the ConfigMap of a revision exists and is the owner's."""
        return await self._own(owner, revision) is not None

    async def repair(self, owner: Owner, revision: str) -> None:
        """Make the ConfigMap again if its bytes are at hand; otherwise only remove what is broken."""
        await self._delete(owner, revision)
        content = self._verified.get((owner.uid, revision))
        if content is not None:
            await self.keep(owner, revision, content)

    async def drop(self, owner: Owner, revision: str) -> None:
        """Delete the ConfigMap of a revision if it is the owner's."""
        self._verified.pop((owner.uid, revision), None)
        await self._delete(owner, revision)

    def forget(self, owner_uid: str) -> None:
        """Drop what is remembered for a DecisionModel that is gone; the garbage collector deletes its ConfigMaps."""
        for key in [key for key in self._verified if key[0] == owner_uid]:
            del self._verified[key]

    async def _own(self, owner: Owner, revision: str) -> KubernetesObject | None:
        return await self._config_maps.find(owner, names.manifest_config_map(owner.name, revision))

    async def _delete(self, owner: Owner, revision: str) -> None:
        await self._config_maps.delete(owner, names.manifest_config_map(owner.name, revision))


def _digest_of(config_map: JsonObject) -> str | None:
    encoded = (config_map.get("binaryData") or {}).get(paths.SEED_KEY)
    if encoded is None:
        return None
    try:
        return hashlib.sha256(base64.b64decode(encoded, validate=True)).hexdigest()
    except binascii.Error:
        return None
