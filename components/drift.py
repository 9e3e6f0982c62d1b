"""How live objects differ from rendered ones: the decision whether a stack needs repair (spec sections 4.5 and 4.9).

The engine sees drift only in fields that it applied, so this comparison is what decides; the engine repairs. Desired is
a subset of live: what the API server or a mutating webhook adds is tolerated. Some things must be equal as sets, since
an addition to them changes what runs or who gets traffic. An annotation of another domain on a Pod template is no such
thing: it is how other tools restart Pods or keep their notes, and who takes it back fights them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from api.keys import GROUP, STORE_RECOVERING_ANNOTATION
from components import names
from components.desired import JsonObject
from components.field_paths import keyed
from components.freeze import grows
from components.manifests import MANAGED_KINDS, Manifest, ObjectKey
from components.subset import differing_paths


class Cause(StrEnum):
    """What is wrong with an object, by what puts it right."""

    MISSING = "Missing"
    """It does not exist: a refreshing operation creates it."""
    CHANGED = "Changed"
    """A declared field has another value: a refreshing operation takes it back."""
    ADDED = "Added"
    """Somebody added to a set of ours. The engine cannot remove what it never applied: the reconciler does."""
    UNEXPECTED = "Unexpected"
    """It is ours, but not desired."""
    FOREIGN = "Foreign"
    """Another owner's object has a name of ours: a `ResourceConflict`, and never touched."""


@dataclass(frozen=True, slots=True, order=True)
class Drift:
    """One difference.

    Attributes:
        kind: Kind of the object.
        name: Its name.
        cause: What is wrong.
        path: Where, as in `spec.template.spec.containers[ollaya].image`; empty when it concerns the object as a whole.
    """

    kind: str
    name: str
    cause: Cause
    path: str = ""


def find_drift(desired: Iterable[Manifest], live: Iterable[JsonObject], owner_uid: str) -> tuple[Drift, ...]:
    """Compare rendered manifests with live objects.

    Args:
        desired: What `render` returned.
        live: API objects of the model's namespace, each with its kind: all that it owns, and all under a name of ours.
        owner_uid: UID of the DecisionModel.

    Returns:
        The differences, those of desired objects in their order first. Terminating objects are left alone: while they
        exist nothing can be repaired.
    """
    found = {ObjectKey(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    expected = {manifest.key: manifest for manifest in desired}
    differing = (drift for key, manifest in expected.items() for drift in _compare(manifest, found.get(key), owner_uid))
    unexpected = (
        Drift(*key, Cause.UNEXPECTED)
        for key, obj in sorted(found.items(), key=lambda item: item[0])
        if key not in expected and key.kind in MANAGED_KINDS and _owned(obj, owner_uid) and not _terminating(obj)
    )
    return (*differing, *unexpected)


def _compare(manifest: Manifest, live: JsonObject | None, owner_uid: str) -> Iterator[Drift]:
    if live is None:
        yield Drift(*manifest.key, Cause.MISSING)
        return
    if not _owned(live, owner_uid):
        yield Drift(*manifest.key, Cause.FOREIGN)
        return
    if _terminating(live):
        return
    for cause, path in _COMPARISONS[manifest.kind](manifest.object, live):
        yield Drift(*manifest.key, cause, path)


def _owned(obj: JsonObject, owner_uid: str) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(reference.get("controller") and reference.get("uid") == owner_uid for reference in references)


def _terminating(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


Difference = tuple[Cause, str]


def _deployment(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    yield from _declared(desired, live)
    wanted, actual = desired["spec"]["template"], live["spec"]["template"]
    path = "spec.template"
    yield from _additions(_our_labels(wanted), _our_labels(actual), f"{path}.metadata.labels")
    noted = {key: value for key, value in _annotations(actual).items() if names.is_ours(key)}
    yield from _additions(_annotations(wanted), noted, f"{path}.metadata.annotations")
    for items in ("containers", "initContainers", "volumes"):
        yield from _additions(_by_name(wanted["spec"], items), _by_name(actual["spec"], items), f"{path}.spec.{items}")
    containers = _by_name(actual["spec"], "containers")
    for name, container in _by_name(wanted["spec"], "containers").items():
        found, inside = containers.get(name, {}), keyed(f"{path}.spec.containers", name)
        yield from _additions(_by_name(container, "env"), _by_name(found, "env"), f"{inside}.env")
        yield from _additions(_by_path(container), _by_path(found), f"{inside}.volumeMounts")


def _service(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    yield from _declared(desired, live)
    yield from _additions(desired["spec"]["selector"], live["spec"].get("selector") or {}, "spec.selector")
    yield from _additions(_by_name(desired["spec"], "ports"), _by_name(live["spec"], "ports"), "spec.ports")


def _declared(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    """Every field of the manifest, and labels with our prefix that are not in it."""
    yield from _changes(_comparable(desired), live)
    yield from _additions(_our_labels(desired), _our_labels(live), "metadata.labels")


def _claim(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    """Return whether the claim must grow or change its mark: nothing else about one is ever changed."""
    wanted, actual = (STORE_RECOVERING_ANNOTATION in _annotations(obj) for obj in (desired, live))
    if wanted != actual:
        yield Cause.CHANGED if wanted else Cause.ADDED, keyed("metadata.annotations", STORE_RECOVERING_ANNOTATION)
    requests = live["spec"].get("resources", {}).get("requests", {})
    if grows(str(requests.get("storage", "0")), str(desired["spec"]["resources"]["requests"]["storage"])):
        yield Cause.CHANGED, "spec.resources.requests.storage"


def _job(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    """Return whether an unfinished Job can still be found: its spec is what it was when it was created."""
    conditions = (live.get("status") or {}).get("conditions") or ()
    if any(each["type"] in ("Complete", "Failed") and each.get("status") == "True" for each in conditions):
        return
    yield from _changes({"metadata": {"labels": desired["metadata"]["labels"]}}, live)


_COMPARISONS: Final[Mapping[str, Callable[[JsonObject, JsonObject], Iterator[Difference]]]] = {
    "PersistentVolumeClaim": _claim,
    "Job": _job,
    "Deployment": _deployment,
    "PodDisruptionBudget": _declared,
    "Service": _service,
}


def _changes(desired: JsonObject, live: JsonObject) -> Iterator[Difference]:
    return ((Cause.CHANGED, path) for path in differing_paths(desired, live))


def _additions(desired: JsonObject, live: JsonObject, path: str) -> Iterator[Difference]:
    return ((Cause.ADDED, keyed(path, key)) for key in live if key not in desired)


def _comparable(obj: JsonObject) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {
        "metadata": {key: metadata[key] for key in ("labels", "annotations", "ownerReferences")},
        "spec": obj["spec"],
    }


def _our_labels(obj: JsonObject) -> dict[str, str]:
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return {key: value for key, value in labels.items() if key.startswith(f"{GROUP}/")}


def _annotations(obj: JsonObject) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _by_path(container: JsonObject) -> dict[str, Any]:
    return {mount.get("mountPath", ""): mount for mount in container.get("volumeMounts") or ()}


def _by_name(obj: JsonObject, items: str) -> dict[str, Any]:
    # A Service's only port may be live without a name.
    return {item.get("name", ""): item for item in obj.get(items) or ()}
