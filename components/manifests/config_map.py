"""The ConfigMaps that keep documents about a revision: its manifest (spec section 4.2), and evidence of its evaluation.

No part of a stack: the reconciler writes them itself, the manifest before the digest is recorded in the status.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
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
    return _document(owner, revision, name, {paths.SEED_KEY: manifest})


def evidence_config_map(owner: Owner, revision: str, document: bytes) -> dict[str, Any]:
    """Return the ConfigMap with the document from which the verdict about a revision can be recomputed."""
    name = names.evidence_config_map(owner.name, revision)
    return _document(owner, revision, name, {paths.EVIDENCE_KEY: document})


def _document(owner: Owner, revision: str, name: str, content: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(owner, name, names.revision_labels(owner.name, revision)),
        "binaryData": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }
