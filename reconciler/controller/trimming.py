"""What of an object the watch cache keeps: no more than is read, and nothing that is too large to be ours.

Labels and annotations are anybody's, and so are whole objects that carry our label.
"""

from __future__ import annotations

from typing import Any, Final

from api.bounds import is_too_large
from api.keys import GROUP, POD_SETTINGS_ANNOTATION
from reconciler.kernel.resources import KubernetesObject

OVERSIZE: Final = "oversize"
"""Beside `spec` and `status` of a trimmed object: names its parts that were left out as too large."""

_UNREAD: Final = ("managedFields", "selfLink")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
)
_MOST_ANNOTATIONS: Final = 1 << 14
"""Characters of an object's annotations; of more only those are kept that can be meant for us."""
_LONGEST_ANNOTATION: Final = 1 << 10
_LONGEST_POD_SETTINGS: Final = 1 << 17
"""Characters of what `spec.pods` can come to as JSON."""
_READ_DOMAINS: Final = (GROUP, "pulumi.com", "deployment.kubernetes.io")


def trim(obj: KubernetesObject) -> KubernetesObject:
    """Return what is kept of a freshly decoded object, which is used up."""
    metadata = obj["metadata"]
    for field in _UNREAD:
        metadata.pop(field, None)
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = _kept(annotations)
    return _without_oversize_parts(obj)


def trim_owned_annotations(obj: KubernetesObject) -> KubernetesObject:
    """Return the same, of an object of which only annotations of our own domain are read."""
    metadata = obj["metadata"]
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if _is_in(key, GROUP)}
    return trim(obj)


def oversize_parts(obj: KubernetesObject) -> tuple[str, ...]:
    """Return the parts of a trimmed object that were left out as too large."""
    return tuple(obj.get(OVERSIZE, ()))


def _without_oversize_parts(obj: KubernetesObject) -> KubernetesObject:
    parts = [part for part in obj if part != "metadata" and is_too_large(obj[part])]
    if is_too_large({**obj["metadata"], "annotations": None}):
        parts.append("metadata")
    if not parts:
        return obj
    kept: dict[str, Any] = {**obj, **{part: {} for part in parts}, OVERSIZE: sorted(parts)}
    if "metadata" in parts:
        kept["metadata"] = {field: value for field, value in obj["metadata"].items() if field in _IDENTITY}
    return kept


def _kept(annotations: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    if sum(len(key) + len(value) for key, value in kept.items()) <= _MOST_ANNOTATIONS:
        return kept
    return {
        key: value
        for key, value in kept.items()
        if len(value) <= _longest(key) and any(_is_in(key, domain) for domain in _READ_DOMAINS)
    }


def _longest(annotation: str) -> int:
    return _LONGEST_POD_SETTINGS if annotation == POD_SETTINGS_ANNOTATION else _LONGEST_ANNOTATION


def _is_in(key: str, domain: str) -> bool:
    prefix = key.partition("/")[0]
    return prefix == domain or prefix.endswith(f".{domain}")
