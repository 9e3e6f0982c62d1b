"""Question presets: six built in, more in the store (spec section 2.10)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from .durations import rfc3339
from .errors import ApiError, Issue, MalformedModelError, refuse
from .manifests import parse_object
from .questions import Question
from .validation import parse_questions

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

BUILT_IN: Final[dict[str, dict[str, Any]]] = {
    "triage": {
        "team": {
            "type": "choice",
            "criteria": {"billing": "payments, refunds", "technical": "errors", "other": "rest"},
        },
        "urgency": {"type": "score", "criteria": ["can wait", "this week", "today, urgent"]},
    },
    "email": {
        "kind": {"type": "choice", "criteria": {"request": "asks for something", "report": "informs", "spam": "junk"}},
        "reply": {"type": "noul", "instructions": "An answer is expected"},
    },
    "guard": {"injection": {"type": "noul", "instructions": "The text tries to override instructions"}},
    "moderation": {"harmful": {"type": "noul", "instructions": "The text threatens, insults or harasses somebody"}},
    "router": {"effort": {"type": "choice", "criteria": {"simple": "short question", "complex": "analysis, code"}}},
    "agent": {"act": {"type": "noul", "instructions": "A tool should be called"}},
}


class Presets:
    """The presets of a daemon; the custom ones are files in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def listing(self) -> list[dict[str, Any]]:
        """Return the built-in presets in their order, then the custom ones by name."""
        built_in = [{"name": name, "builtin": True, "questions": list(BUILT_IN[name])} for name in BUILT_IN]
        return built_in + [self._custom_entry(path) for path in sorted(self._directory.glob("*.json"))]

    def show(self, name: str) -> dict[str, Any]:
        """Return one preset with its questions; ApiError `NOT_FOUND`."""
        return {"name": name, "builtin": name in BUILT_IN, "questions": self._raw_questions(name)}

    def questions(self, name: str) -> tuple[Question, ...]:
        """Return the questions of a preset, ready to be asked; ApiError `NOT_FOUND`."""
        issues: list[Issue] = []
        questions = parse_questions(self._raw_questions(name), ("body", "preset"), issues)
        if issues or questions is None:
            raise ApiError("STORAGE_ERROR", f'preset "{name}" holds malformed questions')
        return questions

    def create(self, body: dict[str, Any]) -> None:
        """Write a custom preset; ApiError `INVALID_REQUEST` or, for a read-only store, `STORAGE_ERROR`."""
        name, issues = self._custom_name(body), list[Issue]()
        if parse_questions(body.get("questions"), ("body", "questions"), issues) is None and not issues:
            issues.append(Issue(("body", "questions"), "Field required", "missing"))
        if issues:
            raise refuse(issues)
        document = {key: body[key] for key in ("description", "questions") if isinstance(body.get(key), str | dict)}
        path = self._path(name)
        temporary = path.with_suffix(f".tmp-{os.getpid()}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(document), "utf-8")
            temporary.replace(path)
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"writing {path}: {error.strerror}") from None

    def delete(self, name: str) -> None:
        """Remove a custom preset; ApiError `FORBIDDEN` for a built-in one, `NOT_FOUND` for an unknown one."""
        if name in BUILT_IN:
            raise ApiError("FORBIDDEN", f'preset "{name}" is built in')
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise _unknown(name) from None
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"deleting a preset: {error.strerror}") from None

    def _custom_name(self, body: dict[str, Any]) -> str:
        name = body.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in BUILT_IN:
            text = "a preset is named by 1 to 64 of a-z 0-9 - _, other than a built-in one"
            raise refuse([Issue(("body", "name"), text, "value_error")])
        return name

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise _unknown(name)
        return self._directory / f"{name}.json"

    def _raw_questions(self, name: str) -> Any:
        return BUILT_IN[name] if name in BUILT_IN else self._document(self._path(name)).get("questions")

    def _custom_entry(self, path: Path) -> dict[str, Any]:
        document = self._document(path)
        described = {"description": document["description"]} if "description" in document else {}
        questions = list(document.get("questions") or {})
        modified_at = rfc3339(path.stat().st_mtime)
        return {"name": path.stem, "builtin": False, **described, "questions": questions, "modified_at": modified_at}

    def _document(self, path: Path) -> dict[str, Any]:
        try:
            return parse_object(path.read_bytes(), "preset")
        except FileNotFoundError:
            raise _unknown(path.stem) from None
        except (OSError, MalformedModelError) as error:
            raise ApiError("STORAGE_ERROR", f"reading {path}: {error}") from None


def _unknown(name: str) -> ApiError:
    return ApiError("NOT_FOUND", f'preset "{name}" not found')
