"""The CustomResourceDefinition, generated from the models (spec section 1).

The models are the source and the YAML under `crds/` is the contract: it is committed, installed as it stands, and a
test compares the two. `python -m api.crd` writes it anew.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from api import keys
from api.decisionmodel import DecisionModel
from api.spec import DecisionModelSpec
from api.status import DecisionModelStatus
from api.structural import structural_schema

CRD_NAME = f"{keys.PLURAL}.{keys.GROUP}"
CRD_FILE = Path(__file__).parent / "crds" / f"{keys.GROUP}_{keys.PLURAL}.yaml"

Column = dict[str, Any]


def _column(name: str, path: str, type_: str = "string") -> Column:
    return {"name": name, "type": type_, "jsonPath": path}


_COLUMNS: tuple[Column, ...] = (
    _column("Active", ".status.stableRevision.model"),
    _column("Candidate", ".status.candidateRevision.model"),
    _column("Accuracy", ".status.evaluation.accuracy"),
    _column("Phase", ".status.phase"),
    _column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    _column("Age", ".metadata.creationTimestamp", "date"),
)
_WIDE_COLUMNS: tuple[Column, ...] = (
    _column("Digest", ".status.stableRevision.digest"),
    _column("Device", ".status.stableRevision.device"),
    _column("Ready", ".status.replicas.modelReady", "integer"),
    _column("Promoted", ".status.lastPromotionTime", "date"),
)


def custom_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": keys.GROUP,
            "names": {
                "kind": keys.KIND,
                "listKind": keys.LIST_KIND,
                "plural": keys.PLURAL,
                "shortNames": [keys.SHORT_NAME],
                "singular": keys.SINGULAR,
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": keys.VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas.current",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [*_COLUMNS, *({**column, "priority": 1} for column in _WIDE_COLUMNS)],
        "schema": {"openAPIV3Schema": _object_schema()},
    }


def _object_schema() -> dict[str, Any]:
    return {
        "description": DecisionModel.__doc__,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # The server knows the metadata; a schema here may only restrict its name.
            "metadata": {"type": "object"},
            "spec": structural_schema(DecisionModelSpec, defaults=True),
            # The server would write the defaults of a status as if someone had observed them.
            "status": structural_schema(DecisionModelStatus, defaults=False),
        },
        "x-kubernetes-validations": [rule.keyword() for rule in DecisionModel.rules],
    }


def render() -> str:
    """Return the CustomResourceDefinition as the text of its committed file."""
    header = "# Generated from the models in api/ by `python -m api.crd`; change those instead.\n"
    return header + yaml.dump(custom_resource_definition(), Dumper=_Dumper, sort_keys=True, width=118)


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out in full: anchors are hard to read and some YAML readers refuse them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the signature is PyYAML's
        return True


@functools.cache
def load() -> dict[str, Any]:
    """Return the committed CustomResourceDefinition, the same object every time: treat it as frozen."""
    committed: dict[str, Any] = yaml.load(CRD_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return committed


if __name__ == "__main__":
    CRD_FILE.write_text(render(), encoding="utf-8")
