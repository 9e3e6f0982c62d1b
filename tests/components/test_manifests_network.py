"""Services, disruption budgets and manifest ConfigMaps (spec sections 4.2 and 4.9)."""

from __future__ import annotations

import base64
import hashlib

import pytest

from components.errors import InvalidManifestError
from components.manifests import MANIFEST_SIZE_LIMIT, manifest_config_map
from components.names import owner_reference
from tests.components.stacks import LABELS, OWNER, REVISION, rendered, stack


def test_the_service_sends_traffic_to_the_selected_revision() -> None:
    obj = rendered(stack(), "Service")
    assert obj["metadata"]["name"] == "laya"
    assert obj["metadata"]["ownerReferences"] == [owner_reference(OWNER)]
    assert obj["spec"] == {
        "type": "ClusterIP",
        "selector": LABELS,
        "ports": [{"name": "http", "port": 11435, "targetPort": 11435, "protocol": "TCP"}],
    }


def test_the_services_own_labels_name_no_revision() -> None:
    assert rendered(stack(), "Service")["metadata"]["labels"] == {"decisionmodel.io/name": "laya"}


def test_a_budget_leaves_one_pod_to_a_drain() -> None:
    obj = rendered(stack(), "PodDisruptionBudget")
    assert obj["apiVersion"] == "policy/v1"
    assert obj["metadata"]["name"] == f"laya-{REVISION}"
    assert obj["metadata"]["labels"] == LABELS
    assert obj["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}


def test_a_manifest_is_kept_byte_for_byte() -> None:
    manifest = b'{"schemaVersion": 2}\n\xff'
    obj = manifest_config_map(OWNER, REVISION, manifest)
    assert obj["metadata"] == {
        "name": f"laya-manifest-{REVISION}",
        "namespace": "team-a",
        "labels": LABELS,
        "ownerReferences": [owner_reference(OWNER)],
    }
    kept = base64.b64decode(obj["binaryData"]["manifest"])
    assert hashlib.sha256(kept).digest() == hashlib.sha256(manifest).digest()
    assert obj["binaryData"].keys() == {"manifest"}


def test_a_manifest_has_a_size_limit() -> None:
    assert manifest_config_map(OWNER, REVISION, bytes(MANIFEST_SIZE_LIMIT))
    with pytest.raises(InvalidManifestError, match="262145 bytes"):
        manifest_config_map(OWNER, REVISION, bytes(MANIFEST_SIZE_LIMIT + 1))
