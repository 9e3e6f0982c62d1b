"""What is known about the size of well-known models (spec section 12.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from policy.navigation import JsonObject, at, text
from reconciler.engine.errors import InvalidModelName
from reconciler.engine.names import ModelName


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """Measured sizes, as Kubernetes quantities; None where nobody measured."""

    memory: str
    """Anonymous memory of a serving process on a CPU, the larger one of several measurements."""
    download: str | None = None
    """What the store holds."""
    cache: str | None = None
    """The claim's size that is recommended."""


FIGURES: Final[Mapping[str, ModelFigures]] = {
    "laya:en": ModelFigures(memory="3167Mi", download="853M", cache="2Gi"),
    "laya:multilingual": ModelFigures(memory="1894Mi", download="683M", cache="2Gi"),
    "nli:latest": ModelFigures(memory="3711Mi", download="1770M", cache="2Gi"),
    "gliclass:latest": ModelFigures(memory="2474Mi", download="884M", cache="4Gi"),
    "jevk5:latest": ModelFigures(memory="4966Mi", download="4480M", cache="6Gi"),
    "decima:small": ModelFigures(memory="520Mi"),
}
"""By canonical name, which has no host for models of the default registry."""


def model_name(value: Any) -> ModelName | None:
    """Return the parsed name; None for what is no name."""
    try:
        return ModelName.parse(text(value))
    except InvalidModelName:
        return None


def known_figures(decision_model: JsonObject) -> ModelFigures | None:
    """Return the figures of the model that a DecisionModel names; None for an unknown one."""
    name = model_name(at(decision_model, "spec", "model"))
    return None if name is None else FIGURES.get(name.canonical())
