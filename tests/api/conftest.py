"""Parametrizes tests over the table of accepted and refused DecisionModels in `admission.yaml`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

_TABLE = yaml.load((Path(__file__).parent / "admission.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument in ("accepted", "refused"):
        if argument in metafunc.fixturenames:
            cases = [case | {"manifest": _manifest(case)} for case in _TABLE[argument]]
            metafunc.parametrize(argument, cases, ids=[case["case"] for case in cases])


def _manifest(case: dict[str, Any]) -> dict[str, Any]:
    spec = {"model": "laya:en", **case.get("spec", {})}
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": case.get("name", "case")},
        "spec": {field: value for field, value in spec.items() if value is not None},
    }
