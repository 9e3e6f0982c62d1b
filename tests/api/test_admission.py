"""The models accept and refuse what the API server does."""

from typing import Any

import pytest
from pydantic import ValidationError

from api.decisionmodel import DecisionModel


def test_accepted_objects_are_read_and_written_unchanged(accepted: dict[str, Any]) -> None:
    model = DecisionModel.model_validate(accepted["manifest"])

    assert DecisionModel.model_validate(model.dump()) == model


def test_refused_objects_say_why(refused: dict[str, Any]) -> None:
    if refused.get("python") == "accepts":
        DecisionModel.model_validate(refused["manifest"])
        return

    with pytest.raises(ValidationError) as refusal:
        DecisionModel.model_validate(refused["manifest"])

    if "rule" in refused and "python" not in refused:
        assert refused["rule"] in str(refusal.value)
