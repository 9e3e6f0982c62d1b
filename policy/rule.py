"""What a rule is: an identity, its reasons, and a pure function from one manifest to the problems in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import ConfigDict

from api.frozen import FrozenModel
from policy.navigation import JsonObject, Path


class Level(StrEnum):
    """What a finding means for whoever is about to apply the manifest."""

    MANDATORY = "mandatory"
    """Nothing may be applied."""
    ADVISORY = "advisory"
    """Worth a look; nothing is held up."""
    DISABLED = "disabled"
    """The rule does not run."""


class Settings(FrozenModel):
    """What may be configured for every rule; rules with parameters extend it."""

    model_config = ConfigDict(extra="forbid")

    level: Level | None = None
    """Unset means the rule's own level."""


class Problem(NamedTuple):
    """One thing that is wrong: where in the manifest, and what."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a rule looks at.

    Attributes:
        object: The manifest that is judged. Anything may be in it.
        peers: All manifests that are checked together, the judged one included.
        environment: The environment they are meant for; None when nobody said.
    """

    object: JsonObject
    peers: tuple[JsonObject, ...] = ()
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        id: Stable; configurations, suppressions and dashboards refer to it.
        why: One sentence on what goes wrong without the rule.
        remedy: One sentence on what to do about a finding.
        level: The level that applies unless configured otherwise.
        kinds: Kinds of objects that the rule judges.
        settings: The type of its parameters; every parameter has a default.
        examine: Yields the problems of a subject of one of `kinds`; gets settings of the type above. Never raises.
        relational: Whether it looks at peers, so that it says nothing about an object alone.
    """

    id: str
    why: str
    remedy: str
    level: Level
    kinds: frozenset[str]
    examine: Callable[[Subject, Any], Iterable[Problem]]
    settings: type[Settings] = Settings
    relational: bool = False
