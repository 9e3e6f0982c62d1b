"""The committed CustomResourceDefinition is the one the models stand for, and says what users rely on."""

from collections.abc import Iterator
from typing import Any

from api.crd import CRD_FILE, custom_resource_definition, load, render

REGENERATE = "run `python -m api.crd` and commit the result"


def _version() -> dict[str, Any]:
    version: dict[str, Any] = load()["spec"]["versions"][0]
    return version


def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = _version()["schema"]["openAPIV3Schema"]
    return schema


def _nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from _nodes(child)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from _nodes(schema[keyword])


def test_the_committed_file_is_up_to_date() -> None:
    assert CRD_FILE.read_text(encoding="utf-8") == render(), REGENERATE
    assert load() == custom_resource_definition()


def test_names_and_scope() -> None:
    spec = load()["spec"]

    assert spec["group"] == "decisionmodel.io"
    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "kind": "DecisionModel",
        "listKind": "DecisionModelList",
        "plural": "decisionmodels",
        "singular": "decisionmodel",
        "shortNames": ["dm"],
    }
    assert _version()["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas.current",
            "labelSelectorPath": ".status.selector",
        },
    }


def test_columns() -> None:
    columns = _version()["additionalPrinterColumns"]

    assert [column["name"] for column in columns if not column.get("priority")] == [
        "Active",
        "Candidate",
        "Accuracy",
        "Phase",
        "Reason",
        "Age",
    ]
    assert [column["name"] for column in columns if column.get("priority") == 1] == [
        "Digest",
        "Device",
        "Ready",
        "Promoted",
    ]


def test_only_the_spec_has_defaults() -> None:
    properties = _schema()["properties"]
    defaults = {
        name: node["default"]
        for parent in _nodes(properties["spec"])
        for name, node in parent.get("properties", {}).items()
        if "default" in node
    }

    assert defaults == {
        "engine": "ollaya",
        "device": "cpu",
        "replicas": 1,
        "size": "10Gi",
        "manualPromotion": False,
        "stabilization": "5m",
        "maxCases": 500,
        "confidence": "0.95",
        "minItemsPerLabel": 20,
        "onUndecided": "Hold",
        "identity": "Platform",
    }
    assert not [node for node in _nodes(properties["status"]) if "default" in node]


def test_status_has_every_field_of_the_contract() -> None:
    status = _schema()["properties"]["status"]["properties"]

    assert set(status) == {
        "phase",
        "phaseTransitionTime",
        "lastPromotionTime",
        "observedGeneration",
        "endpoint",
        "stableRevision",
        "candidateRevision",
        "failedRevision",
        "previousRevision",
        "stableStoppedForRevision",
        "recreateRollback",
        "lastApproval",
        "lastRetryToken",
        "storeRecovery",
        "replicas",
        "selector",
        "evaluation",
        "conditions",
    }
    assert {"reason", "message", "failedAt"} <= set(status["failedRevision"]["properties"])
    assert "reason" not in status["stableRevision"]["properties"]
    assert {"macroF1", "baselineMacroF1", "maxEce", "maxEceIncrease", "minMacroF1", "maxMacroF1Drop"} <= set(
        status["evaluation"]["properties"]
    )


def test_conditions_are_a_map_by_type() -> None:
    conditions = _schema()["properties"]["status"]["properties"]["conditions"]

    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "lastTransitionTime" in conditions["items"]["required"]


def test_every_field_of_the_spec_is_explained() -> None:
    def unexplained(schema: dict[str, Any], path: str) -> Iterator[str]:
        for name, child in schema.get("properties", {}).items():
            if "description" not in child:
                yield f"{path}.{name}"
            yield from unexplained(child, f"{path}.{name}")
        if "items" in schema:
            yield from unexplained(schema["items"], f"{path}[]")

    assert not [*unexplained(_schema()["properties"]["spec"], "spec")]
    assert not [*unexplained(_schema()["properties"]["status"], "status")]
