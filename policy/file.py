"""A file with the rules' levels and parameters, as the reconciler and an environment's program read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from policy.configuration import read_configuration
from policy.errors import PolicyConfigurationError

SIZE_LIMIT: Final = 1 << 18
"""Bytes of a file."""


def read_document(path: Path) -> Mapping[str, Any]:
    """Return what a file says, unjudged but for its outermost form.

    Raises:
        PolicyConfigurationError: It cannot be read, is too large, or is no mapping in YAML.
    """
    return _document(path, _text(path))


def read_usable(path: Path, environment: str | None) -> str:
    """Return a file as it stands, once it is known to be of use in an environment.

    Raises:
        PolicyConfigurationError: It is not; the message names the file, and each key that is wrong in a line.
    """
    text = _text(path)
    document = _document(path, text)
    try:
        read_configuration(document, environment)
    except PolicyConfigurationError as error:
        raise PolicyConfigurationError(*(f"{path}: {problem}" for problem in error.problems)) from error
    return text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise PolicyConfigurationError(f"{path}: more than {SIZE_LIMIT} bytes")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyConfigurationError(f"{path}: {error}") from error


def _document(path: Path, text: str) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyConfigurationError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise PolicyConfigurationError(f"{path}: must be a mapping with `rules` and `environments`")
    return document
