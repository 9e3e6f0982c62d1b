"""An exported state: what it records, and what stays of it when something is taken out. Pure.

The format is the CLI's `stack export`, version 3. Everything in it is hostile until read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from reconciler.driver.errors import DeploymentInvalidError

_VERSION = 3
_SIZE_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResource:
    """One resource of a state.

    Attributes:
        urn: The engine's name of it.
        type: Its type token.
        inputs: What the program said of it.
        needs: URNs it cannot be recorded without: parent, provider, dependencies.
    """

    urn: str
    type: str
    inputs: Mapping[str, Any]
    needs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOperation:
    """What a killed process was doing.

    Attributes:
        urn: To which resource.
        kind: The engine's word: `creating`, `updating`, `deleting` …
    """

    urn: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A state that could be read.

    Attributes:
        document: All of it, as JSON.
        resources: What is recorded, in the engine's order.
        pending: What was interrupted.
    """

    document: Mapping[str, Any]
    resources: tuple[RecordedResource, ...] = ()
    pending: tuple[PendingOperation, ...] = ()


def parse_deployment(data: bytes) -> Deployment:
    """Read an exported state.

    Raises:
        DeploymentInvalidError: It is none, or contradicts itself; the message says where.
    """
    if len(data) > _SIZE_LIMIT:
        raise DeploymentInvalidError(f"it has {len(data)} bytes, more than {_SIZE_LIMIT}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DeploymentInvalidError(f"it is no JSON: {error}") from error
    match document:
        case {"version": 3, "deployment": dict(content)}:
            return _read(document, content)
        case {"version": int(version)} if version != _VERSION:
            raise DeploymentInvalidError(f"its version is {version}, and {_VERSION} is the only one known")
    raise DeploymentInvalidError("it is no exported state: version or deployment is missing")


def _read(document: Mapping[str, Any], content: Mapping[str, Any]) -> Deployment:
    resources = tuple(_resource(entry, f"resources[{index}]") for index, entry in _entries(content, "resources"))
    known: set[str] = set()
    for resource in resources:
        if missing := resource.needs - known:
            raise DeploymentInvalidError(f"{resource.urn} needs {min(missing)}, which does not come before it")
        known.add(resource.urn)
    pending = tuple(_pending(entry, f"pending_operations[{index}]") for index, entry in _pending_entries(content))
    return Deployment(document=document, resources=resources, pending=pending)


def _pending_entries(content: Mapping[str, Any]) -> list[tuple[int, Any]]:
    return _entries(content, "pending_operations")


def _entries(content: Mapping[str, Any], name: str) -> list[tuple[int, Any]]:
    entries = content.get(name) or []
    if not isinstance(entries, list):
        raise DeploymentInvalidError(f"{name} is no list")
    return list(enumerate(entries))


def _resource(entry: Any, place: str) -> RecordedResource:
    match entry:
        case {"urn": str(urn), "type": str(type_)}:
            inputs = entry.get("inputs")
            return RecordedResource(
                urn=urn, type=type_, inputs=inputs if isinstance(inputs, dict) else {}, needs=_needs(entry, place)
            )
    raise DeploymentInvalidError(f"{place} has no urn or no type")


def _needs(entry: Mapping[str, Any], place: str) -> frozenset[str]:
    parent, provider = entry.get("parent"), entry.get("provider")
    dependencies = entry.get("dependencies") or []
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise DeploymentInvalidError(f"{place}.dependencies is no list of URNs")
    named = {each for each in (parent,) if isinstance(each, str) and each}
    # A provider is named by its URN and an id.
    provided = {provider.rpartition("::")[0]} if isinstance(provider, str) and provider else set()
    return frozenset({*named, *provided, *dependencies})


def _pending(entry: Any, place: str) -> PendingOperation:
    match entry:
        case {"resource": {"urn": str(urn)}, "type": str(kind)}:
            return PendingOperation(urn=urn, kind=kind)
    raise DeploymentInvalidError(f"{place} has no resource or no type")


def without(deployment: Deployment, unwanted: AbstractSet[str]) -> Deployment:
    """Return the state without these resources, whatever needs them, and anything pending.

    What exists of them in the cluster stays there.
    """
    gone = set(unwanted)
    for resource in deployment.resources:
        if resource.needs & gone:
            gone.add(resource.urn)
    content = deployment.document["deployment"]
    kept = [entry for entry in content.get("resources") or [] if entry["urn"] not in gone]
    rest = {name: value for name, value in content.items() if name != "pending_operations"}
    document = {**deployment.document, "deployment": {**rest, "resources": kept}}
    return Deployment(document=document, resources=tuple(each for each in deployment.resources if each.urn not in gone))
