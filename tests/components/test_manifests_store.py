"""Claims (spec section 4.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.names import owner_reference
from tests.components.stacks import LABELS, OWNER, REVISION, STORE, rendered, stack


def test_a_claim_is_rendered_whole() -> None:
    assert rendered(stack(), "PersistentVolumeClaim") == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"laya-store-{REVISION}",
            "namespace": "team-a",
            "labels": LABELS,
            "ownerReferences": [owner_reference(OWNER)],
            "annotations": {
                "pulumi.com/skipAwait": "true",
                "pulumi.com/patchFieldManager": "decisionmodel-stack",
                "pulumi.com/patchForce": "true",
                "pulumi.com/timeoutSeconds": "60",
            },
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }


def test_modes_and_size_are_the_stores() -> None:
    store = replace(STORE, size="20Gi", access_modes=("ReadWriteMany", "ReadWriteOnce"))
    spec = rendered(stack(store=store), "PersistentVolumeClaim")["spec"]
    assert spec["accessModes"] == ["ReadWriteMany", "ReadWriteOnce"]
    assert spec["resources"]["requests"]["storage"] == "20Gi"


@pytest.mark.parametrize("name", ["fast", ""])
def test_a_class_is_declared_when_given_even_an_empty_one(name: str) -> None:
    spec = rendered(stack(store=replace(STORE, storage_class_name=name)), "PersistentVolumeClaim")["spec"]
    assert spec["storageClassName"] == name


def test_a_store_being_refilled_says_so() -> None:
    annotations = rendered(stack(store=replace(STORE, recovering=True)), "PersistentVolumeClaim")["metadata"][
        "annotations"
    ]
    assert annotations["decisionmodel.io/store-recovering"] == "true"
