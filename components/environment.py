"""The models of an environment: plain DecisionModel manifests, read and checked before anything is applied."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from components.desired import JsonObject
from components.errors import ComponentsError

_OTHER_SUFFIXES: Final = frozenset({".yml", ".json"})


class ModelManifestError(ComponentsError):
    """A file of models cannot be used; the message names the file and what is wrong."""


def read_models(directory: Path, watched: Collection[str] = ()) -> list[JsonObject]:
    """Return every DecisionModel in `directory` (`*.yaml`, several documents to a file), by file name.

    A model that names no namespace goes to `default`.

    Args:
        directory: Where the files are.
        watched: The namespaces that the reconciler looks after; none for all.

    Raises:
        ModelManifestError: the directory is missing, or a document is no valid DecisionModel, or two have one name, or
            the reconciler would not look at one, or something beside the files could hold more of them.
    """
    models: dict[str, JsonObject] = {}
    for file in model_files(directory):
        for manifest in _documents(file):
            model = _checked(manifest, file)
            name = model.namespaced_name
            if name in models:
                raise ModelManifestError(f"{file}: there already is a DecisionModel {name}")
            if problem := unwatched(model.metadata.namespace, watched):
                raise ModelManifestError(f"{file}: {name}: {problem}")
            models[name] = _placed(manifest)
    return [*models.values()]


def unwatched(namespace: str, watched: Collection[str]) -> str | None:
    """Return why a reconciler would not look at a DecisionModel in a namespace; None if it would.

    Args:
        namespace: The DecisionModel's.
        watched: The namespaces that the reconciler looks after; none for all.
    """
    if not watched or namespace in watched:
        return None
    return (
        f"nobody looks after the namespace {namespace}. Add it to the key manager.watchNamespaces, or move the"
        f" DecisionModel to a namespace that is listed there ({', '.join(watched)})."
    )


def model_files(directory: Path) -> list[Path]:
    """Return the files of an environment's models, by name.

    Raises:
        ModelManifestError: the directory is missing, or something in it could hold models and would not be read.
    """
    if not directory.is_dir():
        raise ModelManifestError(f"{directory}: there is no such directory of models")
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            raise ModelManifestError(f"{path}: directories are not searched. Move the files in it to {directory}.")
        if path.suffix in _OTHER_SUFFIXES:
            raise ModelManifestError(f"{path}: only *.yaml is read. Rename it to {path.stem}.yaml.")
    return sorted(directory.glob("*.yaml"))


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
