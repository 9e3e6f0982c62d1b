"""The ConfigMap that keeps a revision's manifest (spec section 4.2).

No part of a stack: the reconciler writes it itself, before the digest is recorded in the status.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from components import names, paths
from components.desired import Owner
from components.errors import InvalidManifestError
from components.manifests.manifest import object_metadata

MANIFEST_SIZE_LIMIT: Final = 256 * 1024
"""In bytes; a ConfigMap holds little more once it is encoded."""


def manifest_config_map(owner: Owner, revision: str, manifest: bytes) -> dict[str, Any]:
    """Return the ConfigMap with the very bytes whose SHA-256 is the revision's digest.

    Raises:
        InvalidManifestError: There are more than `MANIFEST_SIZE_LIMIT` bytes.
    """
    if len(manifest) > MANIFEST_SIZE_LIMIT:
        raise InvalidManifestError(
            f"the manifest of {owner.namespace}/{owner.name} revision {revision} has {len(manifest)} bytes,"
            f" more than the {MANIFEST_SIZE_LIMIT} that are kept"
        )
    name = names.manifest_config_map(owner.name, revision)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(owner, name, names.revision_labels(owner.name, revision)),
        "binaryData": {paths.SEED_KEY: base64.b64encode(manifest).decode()},
    }
