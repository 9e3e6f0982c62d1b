"""What a stand-in model is made of: the numbers in its decision blob, and its misbehaviour."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import MalformedModelError
from .manifests import parse_object
from .switches import SwitchError, Switches, parse_switches

_RANGES: Final = {
    "sharpness": (0.0, 1000.0),
    "error": (0.0, 1.0),
    "temperature": (1e-3, 1000.0),
    "load_seconds": (0.0, 3600.0),
}
_MOST_MEMORY_BYTES: Final = 2**50


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """How a model answers and loads.

    Attributes:
        sharpness: gain of the softmax over word overlap.
        error: fraction of states, picked by hash, that get a wrong answer.
        temperature: divides the gain; below 1 the model is over-confident, above 1 under-confident.
        load_seconds: how long a load takes.
        memory_bytes: what the model would occupy; reported in the log only.
        switches: misbehaviour of this tag.
    """

    sharpness: float = 2.0
    error: float = 0.0
    temperature: float = 1.0
    load_seconds: float = 0.0
    memory_bytes: int = 0
    switches: Switches = field(default_factory=Switches)


def parse_parameters(raw: bytes) -> ModelParameters:
    """Return the parameters of a decision blob; MalformedModelError names the value that is out of range."""
    document = parse_object(raw, "decision blob")
    numbers = {name: _number(name, document[name]) for name in _RANGES if name in document}
    try:
        switches = parse_switches(document.get("switches", {}), of_tag=True)
    except SwitchError as error:
        raise MalformedModelError(f"decision blob: {error}") from None
    return ModelParameters(**numbers, memory_bytes=_memory(document.get("memory_bytes", 0)), switches=switches)


def _number(name: str, value: Any) -> float:
    lowest, highest = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedModelError(f"decision blob: {name} is not a number")
    if not (lowest <= value <= highest and math.isfinite(value)):
        raise MalformedModelError(f"decision blob: {name} is not between {lowest} and {highest}")
    return float(value)


def _memory(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_MEMORY_BYTES:
        raise MalformedModelError("decision blob: memory_bytes is not a possible number of bytes")
    return value
