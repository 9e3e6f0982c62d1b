"""The models of an environment: plain DecisionModel manifests, read and checked before anything is applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from components.desired import JsonObject
from components.errors import ComponentsError


class ModelManifestError(ComponentsError):
    """A file of models cannot be used; the message names the file and what is wrong."""


def read_models(directory: Path) -> list[JsonObject]:
    """Return every DecisionModel under `directory` (`*.yaml`, several documents to a file), by file name.

    A model that names no namespace goes to `default`.

    Raises:
        ModelManifestError: the directory is missing, or a document is no valid DecisionModel, or two have one name.
    """
    if not directory.is_dir():
        raise ModelManifestError(f"{directory}: there is no such directory of models")
    models: dict[str, JsonObject] = {}
    for file in sorted(directory.glob("*.yaml")):
        for manifest in _documents(file):
            name = _checked(manifest, file).namespaced_name
            if name in models:
                raise ModelManifestError(f"{file}: there already is a DecisionModel {name}")
            models[name] = _placed(manifest)
    return [*models.values()]


def _documents(file: Path) -> Iterator[Any]:
    try:
        yield from (document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document)
    except yaml.YAMLError as error:
        raise ModelManifestError(f"{file}: {error}") from error


def _checked(manifest: Any, file: Path) -> DecisionModel:
    try:
        return DecisionModel.model_validate(manifest)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, problem['loc'])) or 'the object'}: {problem['msg']}" for problem in error.errors()
        )
        raise ModelManifestError(f"{file}: {'; '.join(problems)}") from error


def _placed(manifest: dict[str, Any]) -> JsonObject:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {"namespace": "default", **metadata}}
