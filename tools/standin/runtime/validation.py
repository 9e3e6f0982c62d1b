"""The request validator: every issue at once, with its place and type (spec sections 2.4, 2.7 and 2.8)."""

from __future__ import annotations

from typing import Any, Final

from .durations import parse_keep_alive
from .errors import Issue, refuse
from .questions import DecisionRequest, Question

Loc = tuple[str | int, ...]

_KINDS: Final = ("choice", "score", "noul")
_MOST_QUESTIONS: Final = 256
_CHOICE_LABELS: Final = (2, 255)
_SCORE_LEVELS: Final = (2, 10)
_MOST_IMAGES: Final = 16


def validate_decision(body: dict[str, Any], *, native: bool, presets: bool = False) -> DecisionRequest:
    """Return the request; ApiError `INVALID_REQUEST` with all issues. `native` is `/api/decide`, with its fields."""
    issues: list[Issue] = []
    given = {key: value for key, value in body.items() if value is not None}
    model = _model(given, issues)
    state = _state(given, issues, required=not native)
    questions = parse_questions(given.get("questions"), ("body", "questions"), issues)
    native_fields = _native_fields(given, issues, presets=presets) if native else {}
    if issues:
        raise refuse(issues)
    return DecisionRequest(model, state, questions, **native_fields)


def validate_model(body: dict[str, Any], field: str = "model") -> str:
    """Return the model name of a body that holds little else; ApiError `INVALID_REQUEST`."""
    issues: list[Issue] = []
    name = _model({key: value for key, value in body.items() if value is not None}, issues, field)
    if issues:
        raise refuse(issues)
    return name


def parse_questions(value: Any, loc: Loc, issues: list[Issue]) -> tuple[Question, ...] | None:
    """Return the questions of an object, None for none, and add what is wrong with it to `issues`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        issues.append(Issue(loc, "Input should be a valid dictionary", "dict_type"))
        return None
    _check_length(len(value), (1, _MOST_QUESTIONS), "Dictionary", loc, issues)
    parsed = [_question(name, item, (*loc, name), issues) for name, item in value.items()]
    return tuple(question for question in parsed if question is not None)


def _model(given: dict[str, Any], issues: list[Issue], field: str = "model") -> str:
    value, loc = given.get(field), ("body", field)
    if value is None:
        issues.append(_missing(loc))
    elif not isinstance(value, str):
        issues.append(Issue(loc, "Input should be a valid string", "string_type"))
    elif not value:
        issues.append(Issue(loc, "String should have at least 1 character", "string_too_short"))
    else:
        return value
    return ""


def _state(given: dict[str, Any], issues: list[Issue], *, required: bool) -> Any:
    value, loc = given.get("state"), ("body", "state")
    if value is None and (required or given.keys() & {"questions", "images"}):
        issues.append(_missing(loc))
    elif value is not None and not isinstance(value, str | dict | list):
        issues.append(Issue(loc, "Input should be a string, object or array", "state_type"))
    return value


def _question(name: str, value: Any, loc: Loc, issues: list[Issue]) -> Question | None:
    if not isinstance(value, dict):
        issues.append(Issue(loc, "Input should be a valid dictionary", "dict_type"))
        return None
    kind = value.get("type")
    if kind is None:
        issues.append(Issue(loc, "Unable to extract tag using discriminator 'type'", "union_tag_not_found"))
        return None
    if kind not in _KINDS:
        expected = ", ".join(f"'{each}'" for each in _KINDS)
        text = f"Input tag does not match any of the expected tags: {expected}"
        issues.append(Issue(loc, text, "union_tag_invalid"))
        return None
    instructions = value.get("instructions")
    _check_json(instructions, (*loc, kind, "instructions"), issues, null=True)
    options = _OPTIONS[kind](value.get("criteria"), (*loc, kind, "criteria"), issues)
    return Question(name, kind, name if instructions is None else instructions, options)


def _choice_options(criteria: Any, loc: Loc, issues: list[Issue]) -> tuple[tuple[str, Any], ...]:
    if criteria is None:
        issues.append(_missing(loc))
        return ()
    if isinstance(criteria, list):
        labels = _label_list(criteria, loc, issues)
    elif isinstance(criteria, dict):
        for label, description in criteria.items():
            _check_json(description, (*loc, label), issues, null=True)
        labels = criteria
    else:
        issues.append(Issue(loc, "Input should be a valid dictionary", "dict_type"))
        return ()
    _check_length(len(labels), _CHOICE_LABELS, "Dictionary", loc, issues)
    return tuple(labels.items())


def _label_list(criteria: list[Any], loc: Loc, issues: list[Issue]) -> dict[str, Any]:
    for index, label in enumerate(criteria):
        if not isinstance(label, str):
            issues.append(Issue((*loc, index), "Input should be a valid string", "string_type"))
    return {label: None for label in criteria if isinstance(label, str)}


def _score_options(criteria: Any, loc: Loc, issues: list[Issue]) -> tuple[tuple[str, Any], ...]:
    if criteria is None:
        issues.append(_missing(loc))
        return ()
    if not isinstance(criteria, list):
        issues.append(Issue(loc, "Input should be a valid list", "list_type"))
        return ()
    for index, level in enumerate(criteria):
        _check_json(level, (*loc, index), issues, null=False)
    _check_length(len(criteria), _SCORE_LEVELS, "List", loc, issues)
    return tuple((str(index), level) for index, level in enumerate(criteria))


def _noul_options(criteria: Any, loc: Loc, issues: list[Issue]) -> tuple[tuple[str, Any], ...]:
    if criteria is not None and not isinstance(criteria, dict):
        issues.append(Issue(loc, "Input should be a valid dictionary", "dict_type"))
    described = criteria if isinstance(criteria, dict) else {}
    for key in ("true", "false"):
        _check_json(described.get(key), (*loc, key), issues, null=True)
    return tuple((key, described.get(key)) for key in ("true", "false"))


_OPTIONS: Final = {"choice": _choice_options, "score": _score_options, "noul": _noul_options}


def _native_fields(given: dict[str, Any], issues: list[Issue], *, presets: bool) -> dict[str, Any]:
    if given.get("stream") is True:
        issues.append(Issue(("body", "stream"), "Streaming is not supported here", "stream_unsupported"))
    elif not isinstance(given.get("stream", False), bool):
        issues.append(Issue(("body", "stream"), "Input should be a valid boolean", "bool_type"))
    return {
        "keep_alive": _keep_alive(given.get("keep_alive"), issues),
        "extras": _extras(given.get("extras"), issues),
        "preset": _preset(given, issues) if presets else None,
        "has_images": _has_images(given.get("images"), issues) if presets else False,
    }


def _keep_alive(value: Any, issues: list[Issue]) -> float | None:
    if value is None:
        return None
    try:
        return parse_keep_alive(value)
    except ValueError as error:
        issues.append(Issue(("body", "keep_alive"), f"Invalid duration: {error}", "keep_alive"))
        return None


def _extras(value: Any, issues: list[Issue]) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        issues.append(Issue(("body", "extras"), "Input should be a valid list", "list_type"))
        return ()
    unknown = [index for index, item in enumerate(value) if item != "laya"]
    issues.extend(Issue(("body", "extras", index), "Input should be 'laya'", "enum") for index in unknown)
    return () if unknown else tuple(value)


def _preset(given: dict[str, Any], issues: list[Issue]) -> str | None:
    value = given.get("preset")
    if value is None:
        return None
    if not isinstance(value, str):
        issues.append(Issue(("body", "preset"), "Input should be a valid string", "string_type"))
        return None
    if "questions" in given:
        issues.append(Issue(("body", "preset"), "Give either preset or questions", "value_error"))
    return value


def _has_images(value: Any, issues: list[Issue]) -> bool:
    if value is None:
        return False
    if not isinstance(value, list):
        issues.append(Issue(("body", "images"), "Input should be a valid list", "list_type"))
        return False
    _check_length(len(value), (0, _MOST_IMAGES), "List", ("body", "images"), issues)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            issues.append(Issue(("body", "images", index), "Input should be a valid string", "string_type"))
        elif not item:
            text = "String should have at least 1 character"
            issues.append(Issue(("body", "images", index), text, "string_too_short"))
    return bool(value)


def _check_json(value: Any, loc: Loc, issues: list[Issue], *, null: bool) -> None:
    if isinstance(value, str | dict | list) or (null and value is None):
        return
    issues.append(Issue(loc, "Input should be a string, object or array", "json_type"))


def _check_length(length: int, bounds: tuple[int, int], what: str, loc: Loc, issues: list[Issue]) -> None:
    shortest, longest = bounds
    if length < shortest:
        text = f"{what} should have at least {shortest} items after validation, not {length}"
        issues.append(Issue(loc, text, "too_short", {"min_length": shortest, "actual_length": length}))
    if length > longest:
        text = f"{what} should have at most {longest} items after validation, not {length}"
        issues.append(Issue(loc, text, "too_long", {"max_length": longest, "actual_length": length}))


def _missing(loc: Loc) -> Issue:
    return Issue(loc, "Field required", "missing")
