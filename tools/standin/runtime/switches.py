"""Failure switches: the closed set of ways in which the stand-in misbehaves on purpose (spec section 10.2).

A switch can be set in three places. `env`: ``OLLAYA_STANDIN_<NAME>``, read once at start. `control`: ``PUT /switches``
on the control listener (see `control`), at any time. `tag`: ``"switches": {...}`` in a model's decision blob, which
holds for requests about that model only, so that one tag of a registry can misbehave without any setting. The control
listener overrides the environment, and both override the tag. Values are JSON; ``null`` is "off".

====================  ===========================  =====================================================================
name                  type                         effect
====================  ===========================  =====================================================================
gpu                   "none", "working", "broken"  what `OLLAYA_DEVICE` finds: explicit cuda fails to load unless
                                                   working, auto falls back to the CPU
device                string                       device reported by `/api/ps`, whatever was configured
digest                string                       digest reported by `/api/ps`, whatever was loaded
unpinned              number, seconds              a pin is taken as this residency
crash_after           integer >= 1                 the model's child dies after this many answers
load_failure          string                       every load fails with this text
load_seconds          number                       how long a load takes
load_hangs            bool                         a load never ends by itself: the load timeout ends it
inference_crash       bool                         the child dies on each decision: 500 `INFERENCE_FAILED`
truncated             bool                         every state counts as cut
queue_full            bool                         decisions are refused with 503 `QUEUE_FULL`
unauthorized          bool                         every request that needs a key is refused with 401
refusal               {"status": n, "code": s}     every API request is refused with this status and code
html_error            bool                         every API request gets a proxy's 502 HTML page
invalid_json          bool                         API bodies are cut in half, status 200
hung                  bool                         requests are accepted and never answered, `/` included
field_set             "old", "current", "future"   old: `/api/ps` lacks model, size, size_vram, context_length;
                                                   future: objects carry fields nobody knows
exit_after            number, seconds              the process exits this long after start (tag: after the load)
exit_code             integer 0..255               with this code (1 by default)
pull_start_failure    bool                         the daemon that `pull` starts for itself never answers
backoff_scale         number                       factor on a pull's waits and stall limits
answers               {state: answer}              scripted answers. The key is the state (objects and arrays as compact
                                                   JSON); the answer is a label, a level, a bool, a list of
                                                   probabilities, or {question id: one of these}
====================  ===========================  =====================================================================

On a `tag`, `queue_full`, `unauthorized`, `refusal`, `html_error`, `invalid_json` and `hung` touch only decisions about
that model; `field_set`, `pull_start_failure` and `backoff_scale` have no meaning there and are refused.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from .errors import StandinError

_ENVIRONMENT_PREFIX: Final = "OLLAYA_STANDIN_"
_CHOICES: Final = {"gpu": ("none", "working", "broken"), "field_set": ("old", "current", "future")}
_PROCESS_ONLY: Final = frozenset({"field_set", "pull_start_failure", "backoff_scale"})
_STRINGS: Final = frozenset({"device", "digest", "load_failure"})
_FLAGS: Final = frozenset(
    {"load_hangs", "inference_crash", "truncated", "queue_full", "unauthorized", "html_error", "invalid_json"}
    | {"hung", "pull_start_failure"}
)
_NUMBERS: Final = frozenset({"unpinned", "load_seconds", "exit_after", "backoff_scale"})
_INTEGERS: Final = {"crash_after": (1, 10**9), "exit_code": (0, 255)}
_LONGEST_SECONDS: Final = 10**6


class SwitchError(StandinError):
    """A switch has an unknown name or a value of the wrong type; the text names it."""


@dataclass(frozen=True, slots=True)
class Switches:
    """One setting of all switches; the module's table is their meaning. ``None`` is "not set here"."""

    gpu: str | None = None
    device: str | None = None
    digest: str | None = None
    unpinned: float | None = None
    crash_after: int | None = None
    load_failure: str | None = None
    load_seconds: float | None = None
    load_hangs: bool | None = None
    inference_crash: bool | None = None
    truncated: bool | None = None
    queue_full: bool | None = None
    unauthorized: bool | None = None
    refusal: dict[str, Any] | None = None
    html_error: bool | None = None
    invalid_json: bool | None = None
    hung: bool | None = None
    field_set: str | None = None
    exit_after: float | None = None
    exit_code: int | None = None
    pull_start_failure: bool | None = None
    backoff_scale: float | None = None
    answers: dict[str, Any] | None = field(default=None)

    def over(self, below: Switches) -> Switches:
        """Return these switches where set, those of `below` elsewhere."""
        return replace(below, **self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return the switches that are set."""
        return {name: value for name in NAMES if (value := getattr(self, name)) is not None}


NAMES: Final = tuple(item.name for item in fields(Switches))


def parse_switches(document: Any, *, of_tag: bool = False) -> Switches:
    """Return the switches of a JSON object; SwitchError for an unknown name or a value outside the table."""
    if not isinstance(document, dict):
        raise SwitchError("switches are a JSON object")
    for name, value in document.items():
        if name not in NAMES or (of_tag and name in _PROCESS_ONLY):
            raise SwitchError(f"{name!r} is not a switch here")
        if value is not None and not _is_valid(name, value):
            raise SwitchError(f"switch {name} cannot be {value!r}")
    return Switches(**document)


def switches_from_environment(environment: Mapping[str, str]) -> Switches:
    """Return the switches of ``OLLAYA_STANDIN_<NAME>`` variables; text that is not JSON is taken as it is."""
    variables = {name: environment.get(_ENVIRONMENT_PREFIX + name.upper()) for name in NAMES}
    return parse_switches({name: _json_or_text(text) for name, text in variables.items() if text is not None})


class SwitchBoard:
    """The switches of the process as they stand now; the control listener turns them while requests run."""

    def __init__(self, initial: Switches) -> None:
        self._switches = initial
        self.changed = threading.Condition()

    @property
    def current(self) -> Switches:
        """The switches of the whole process."""
        return self._switches

    def turn(self, switches: Switches) -> None:
        """Put `switches` in force and wake whoever waits for a change."""
        with self.changed:
            self._switches = switches
            self.changed.notify_all()

    def wait_until_answering(self, of_tag: Switches, seconds: float) -> None:
        """Return when `hung` is off, or after `seconds`."""
        with self.changed:
            self.changed.wait_for(lambda: not self._switches.over(of_tag).hung, seconds)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_valid(name: str, value: Any) -> bool:
    if name in _CHOICES:
        return value in _CHOICES[name]
    if name in _FLAGS:
        return isinstance(value, bool)
    if name in _STRINGS:
        return isinstance(value, str) and 0 < len(value) <= 4096
    if name in _INTEGERS:
        lowest, highest = _INTEGERS[name]
        return type(value) is int and lowest <= value <= highest
    if name in _NUMBERS:
        return _is_number(value) and 0 <= value <= _LONGEST_SECONDS
    return _is_refusal(value) if name == "refusal" else isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_refusal(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"status", "code"}:
        return False
    return type(value["status"]) is int and 400 <= value["status"] <= 599 and isinstance(value["code"], str)
