"""The kinds of objects that rules judge, and the parts that several rules look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from api import keys
from policy.navigation import JsonObject, Path, at, mapping, sequence, text

DECISION_MODEL: Final = frozenset({keys.KIND})

_POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "Job", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"),
        ("spec", "template", "spec"),
    ),
}
WORKLOADS: Final = frozenset(_POD_SPECS)
MODELS_AND_WORKLOADS: Final = DECISION_MODEL | WORKLOADS

_BATCH: Final = frozenset({"Job", "CronJob"})
_MODEL_LABELS: Final = frozenset({keys.NAME_LABEL, keys.REVISION_LABEL})
_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


class Part(NamedTuple):
    """A part of a manifest and where it is."""

    path: Path
    fields: JsonObject


def kind_of(manifest: Any) -> str:
    """Return the kind; empty for what is no object.

    What has only the group or only the name of ours counts as a DecisionModel: one that is misspelt must not pass
    because nothing judges it.
    """
    group = text(at(manifest, "apiVersion")).rpartition("/")[0]
    return keys.KIND if group == keys.GROUP else text(at(manifest, "kind"))


def labels_of(metadata: Any) -> JsonObject:
    """Return the labels in an object's or a template's metadata."""
    return mapping(at(metadata, "labels"))


def of_model(labels: JsonObject) -> bool:
    """Whether labels, or a selector of labels, are those of a DecisionModel's Pods."""
    return not _MODEL_LABELS.isdisjoint(labels)


def namespace_of(manifest: JsonObject) -> str:
    """Return the namespace, `default` when none is named."""
    return text(at(manifest, "metadata", "namespace")) or "default"


def pods(manifest: JsonObject) -> Iterator[Part]:
    """Yield the Pod spec of a workload that belongs to a DecisionModel; nothing for all other objects."""
    path = _POD_SPECS.get(kind_of(manifest))
    if path is None:
        return
    template = at(manifest, *path[:-1])
    metadata = (at(manifest, "metadata"), at(template, "metadata"))
    if any(of_model(labels_of(each)) for each in metadata):
        yield Part(path, mapping(at(manifest, *path)))


def servers(manifest: JsonObject) -> Iterator[Part]:
    """Yield the Pod spec of a model's workload whose Pods answer requests."""
    kind = kind_of(manifest)
    labels = labels_of(at(manifest, *_POD_SPECS.get(kind, ())[:-1], "metadata"))
    # A Service selects Pods by their labels, whatever has started them.
    if kind not in _BATCH or keys.REVISION_LABEL in labels:
        yield from pods(manifest)


def containers(pod: Part) -> Iterator[Part]:
    """Yield a Pod's containers of every sort."""
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(sequence(pod.fields.get(name))):
            yield Part((*pod.path, name, index), mapping(container))


def volumes(pod: Part) -> Iterator[Part]:
    """Yield a Pod's volumes."""
    for index, volume in enumerate(sequence(pod.fields.get("volumes"))):
        yield Part((*pod.path, "volumes", index), mapping(volume))


def all_containers(manifest: JsonObject) -> Iterator[Part]:
    """Yield the containers of a model's workload."""
    for pod in pods(manifest):
        yield from containers(pod)


def variables(container: Part) -> Iterator[Part]:
    """Yield a container's variables."""
    for index, variable in enumerate(sequence(container.fields.get("env"))):
        yield Part((*container.path, "env", index), mapping(variable))


def variable_sources(container: Part) -> Iterator[Part]:
    """Yield the ConfigMaps and Secrets that become a container's variables with all their keys."""
    for index, source in enumerate(sequence(container.fields.get("envFrom"))):
        yield Part((*container.path, "envFrom", index), mapping(source))
