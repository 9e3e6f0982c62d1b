"""What a model's Pods may do, and what they must prove before clients reach them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from api.keys import GATE
from policy.navigation import JsonObject, at, mapping, sequence, text
from policy.objects import WORKLOADS, Part, containers, kind_of, labels_of, of_model, pods, servers, volumes
from policy.rule import Level, Problem, Rule, Settings, Subject

_SERVICE: Final = "Service"
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_HOST_NAMESPACES: Final = ("hostNetwork", "hostPID", "hostIPC")


def _gated(subject: Subject, _: Settings) -> Iterator[Problem]:
    if kind_of(subject.object) == _SERVICE:
        yield from _ungated_service(subject)
        return
    for pod in servers(subject.object):
        gates = (at(gate, "conditionType") for gate in sequence(pod.fields.get("readinessGates")))
        if GATE not in gates:
            yield Problem((*pod.path, "readinessGates"), f"lacks the gate {GATE}")
        for path, fields in containers(pod):
            if fields.get("readinessProbe") is not None:
                yield Problem((*path, "readinessProbe"), "judges readiness by a probe, which knows no digest")


def _ungated_service(subject: Subject) -> Iterator[Problem]:
    spec = mapping(at(subject.object, "spec"))
    labels, selector = labels_of(at(subject.object, "metadata")), mapping(spec.get("selector"))
    if (of_model(labels) or of_model(selector)) and spec.get("publishNotReadyAddresses"):
        yield Problem(("spec", "publishNotReadyAddresses"), "sends clients to Pods whose gate is closed")


def _store_read_only(subject: Subject, _: Settings) -> Iterator[Problem]:
    for pod in servers(subject.object):
        claims = [*_writable_claims(pod)]
        for path, fields in containers(pod):
            for index, mount in enumerate(sequence(fields.get("volumeMounts"))):
                name = at(mount, "name")
                if name in claims and at(mount, "readOnly") is not True:
                    yield Problem((*path, "volumeMounts", index), f"mounts {text(name)} for writing")


def _writable_claims(pod: Part) -> Iterator[Any]:
    """Yield the names of volumes through which a claim could be written."""
    for _, fields in volumes(pod):
        claim = fields.get("persistentVolumeClaim")
        if claim is not None and at(claim, "readOnly") is not True:
            yield fields.get("name")


def _restricted(subject: Subject, _: Settings) -> Iterator[Problem]:
    for pod in pods(subject.object):
        yield from _host_access(pod)
        yield from _unconfined(subject.object, pod)
        for container in containers(pod):
            yield from _identity(pod, container)
            yield from _rights(container)


def _host_access(pod: Part) -> Iterator[Problem]:
    for field in _HOST_NAMESPACES:
        if pod.fields.get(field):
            yield Problem((*pod.path, field), "shares a namespace of the node")
    for path, fields in volumes(pod):
        if fields.get("hostPath") is not None:
            yield Problem((*path, "hostPath"), "mounts the node's own files")


def _unconfined(manifest: JsonObject, pod: Part) -> Iterator[Problem]:
    """Judge the annotations by which AppArmor was switched off before it had a field, and still can be."""
    path = (*pod.path[:-1], "metadata", "annotations")
    for key, value in mapping(at(manifest, *map(str, path))).items():
        if key.startswith(_APPARMOR) and value == "unconfined":
            yield Problem((*path, key), "runs without AppArmor")


def _identity(pod: Part, container: Part) -> Iterator[Problem]:
    """Judge who the container runs as; its own context goes before the Pod's."""
    path = (*container.path, "securityContext")
    effective = {
        **mapping(pod.fields.get("securityContext")),
        **mapping(container.fields.get("securityContext")),
    }
    if effective.get("runAsNonRoot") is not True:
        yield Problem((*path, "runAsNonRoot"), "may run as root: runAsNonRoot is not true")
    # In Python False equals 0, and a text is no user at all.
    if effective.get("runAsUser") == 0:
        yield Problem((*path, "runAsUser"), "runs as root")


def _rights(container: Part) -> Iterator[Problem]:
    path = (*container.path, "securityContext")
    context = mapping(container.fields.get("securityContext"))
    if context.get("privileged"):
        yield Problem((*path, "privileged"), "is privileged")
    if context.get("allowPrivilegeEscalation") is not False:
        yield Problem((*path, "allowPrivilegeEscalation"), "may gain privileges: this is not false")
    if context.get("readOnlyRootFilesystem") is not True:
        yield Problem((*path, "readOnlyRootFilesystem"), "may change its own programs: this is not true")
    capabilities = mapping(context.get("capabilities"))
    if "ALL" not in sequence(capabilities.get("drop")):
        yield Problem((*path, "capabilities", "drop"), "keeps capabilities: this does not hold ALL")
    if capabilities.get("add"):
        yield Problem((*path, "capabilities", "add"), "adds capabilities")


RULES: Final = (
    Rule(
        id="readiness-gate-present",
        why="Without the gate clients reach a Pod before it has proved that it serves the right model.",
        remedy=f"Keep `readinessGates: [{GATE}]`, no `readinessProbe`, and no `publishNotReadyAddresses`.",
        level=Level.MANDATORY,
        kinds=WORKLOADS | {_SERVICE},
        examine=_gated,
    ),
    Rule(
        id="store-read-only",
        why="A serving process that can write its store can change the model after it was verified.",
        remedy="Mount the claim with `readOnly: true` in every container that serves.",
        level=Level.MANDATORY,
        kinds=WORKLOADS,
        examine=_store_read_only,
    ),
    Rule(
        id="pod-restricted",
        why="A model needs no rights on its node, so a broken-into runtime should find none.",
        remedy="Run as non-root with a read-only root, without capabilities, escalation or access to the node.",
        level=Level.MANDATORY,
        kinds=WORKLOADS,
        examine=_restricted,
    ),
)
