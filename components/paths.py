"""Where the runtime's containers find their files: the contract between what is mounted and what is said in variables.

`components.manifests` mounts volumes at these paths, and `reconciler.engine` names them in the environment of the
same containers (spec sections 4.3 and 4.5).
"""

from typing import Final

MODEL_STORE: Final = "/models"
"""The revision's directory of the store: written by the prefetch Job, read-only where the model is served."""

STORE_ROOT: Final = "/store-root"
"""The whole volume, mounted into the prefetch Job only when it removes the directories of earlier revisions."""

SEED_DIRECTORY: Final = "/seed"
"""Where the manifest ConfigMap is mounted, read-only."""

SEED_KEY: Final = "manifest"
"""The single key of the manifest ConfigMap and so the name of the seed file (spec section 3.2)."""

EVIDENCE_KEY: Final = "evidence"
"""The single key of the evidence ConfigMap."""

SEED_FILE: Final = f"{SEED_DIRECTORY}/{SEED_KEY}"

RUNTIME_STATE: Final = "/home/ollaya/.ollaya"
"""Scratch space of the runtime: its log and process files, never the models."""
