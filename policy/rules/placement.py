"""Whether a model's replicas can run where its store can be mounted, and what they share there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api.spec import Cache
from components.desired import is_shareable
from components.manifests import unschedulable
from policy.navigation import JsonObject, at, mapping, sequence, text
from policy.objects import DECISION_MODEL
from policy.rule import Level, Problem, Rule, Settings, Subject

_REPLICAS: Final = ("spec", "replicas")
_INT32_MAX: Final = 2**31 - 1


def access_modes(spec: object) -> tuple[str, ...]:
    """Return the access modes of a claim or a cache, the default ones where it has none."""
    return tuple(map(text, sequence(at(spec, "accessModes")))) or Cache().effective_access_modes


def _obstacle(manifest: JsonObject) -> tuple[int, str]:
    """Return the replicas where they share a node, else 0, and why they cannot run there."""
    replicas, modes = at(manifest, *_REPLICAS), access_modes(at(manifest, "spec", "cache"))
    if not isinstance(replicas, int) or not 1 < replicas <= _INT32_MAX or is_shareable(modes):
        return 0, ""
    pod_affinity = mapping(at(manifest, "spec", "scheduling", "affinity", "podAffinity"))
    return replicas, unschedulable(replicas, modes, {"podAffinity": pod_affinity})


def _schedulable(subject: Subject, _: Settings) -> Iterator[Problem]:
    obstacle = _obstacle(subject.object)[1]
    if obstacle:
        yield Problem(_REPLICAS, obstacle)


def _spread(subject: Subject, _: Settings) -> Iterator[Problem]:
    replicas, obstacle = _obstacle(subject.object)
    if replicas and not obstacle:
        yield Problem(_REPLICAS, f"all {replicas} Pods run on the one node that mounts the store, and go with it")


RULES: Final = (
    Rule(
        id="replicas-schedulable",
        why="Replicas that can never all be scheduled let the rollout end at its deadline, after the whole download.",
        remedy="Let several nodes mount the store (`cache.accessModes: [ReadWriteMany]`), or ask for one replica.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        examine=_schedulable,
    ),
    Rule(
        id="replicas-share-node",
        why="Replicas on one node outlive a crash but no node: a drain takes them all, and no budget can forbid it.",
        remedy="Let several nodes mount the store (`cache.accessModes: [ReadWriteMany]`), if the class can do that.",
        level=Level.ADVISORY,
        kinds=DECISION_MODEL,
        examine=_spread,
    ),
)
