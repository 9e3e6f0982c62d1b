"""A revision's model store (spec section 4.1)."""

from __future__ import annotations

from typing import Any, Final

from api.keys import STORE_RECOVERING_ANNOTATION
from components import names
from components.desired import DesiredRevision, Owner
from components.manifests.manifest import Manifest, stack_metadata

# A claim's deletion waits for its Pods whatever skipAwait says, and a foreign Pod may mount it for ever. Longer than
# the grace of our own Pods; after it the operation fails instead of holding the stack for ten minutes.
_DELETION_TIMEOUT_SECONDS: Final = 60


def persistent_volume_claim(owner: Owner, revision: DesiredRevision) -> Manifest:
    """Return the claim under whose sub-path, the revision's hash, the model's files live."""
    store = revision.store
    name = names.store(owner.name, revision.hash, shared=store.shared)
    annotations = {
        "pulumi.com/timeoutSeconds": str(_DELETION_TIMEOUT_SECONDS),
        STORE_RECOVERING_ANNOTATION: "true" if store.recovering else None,
    }
    spec: dict[str, Any] = {
        "accessModes": list(store.access_modes),
        "resources": {"requests": {"storage": store.size}},
    }
    if store.storage_class_name is not None:  # the empty name means "no class", not "the default one"
        spec["storageClassName"] = store.storage_class_name
    return Manifest(
        kind="PersistentVolumeClaim",
        name=name,
        object={
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": stack_metadata(owner, name, names.revision_labels(owner.name, revision.hash), annotations),
            "spec": spec,
        },
    )
