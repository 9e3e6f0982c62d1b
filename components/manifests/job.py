"""The Job that fills a revision's store and verifies what it holds (spec section 4.3)."""

from __future__ import annotations

from typing import Any, Final

from components import names, paths
from components.desired import DesiredRevision, Owner, Prefetch
from components.manifests import pod
from components.manifests.manifest import Manifest, ObjectKey, stack_metadata

PREFETCH_CONTAINER: Final = "prefetch"

_SEED_VOLUME: Final = "manifest-seed"
_BACKOFF_LIMIT: Final = 4
# ModelNotFound, DigestMismatch, UpstreamTagMoved, SeedUnavailable: another attempt would end the same way.
_PERMANENT_EXIT_CODES: Final = (3, 4, 5, 6)


def prefetch_job(owner: Owner, revision: DesiredRevision, prefetch: Prefetch, store: ObjectKey) -> Manifest:
    """Return the Job, which fills the claim `store`."""
    name = names.prefetch_job(owner.name, revision.hash)
    # With the default, foreground, a deleted Job would keep its name for as long as its Pods end.
    annotations = {"pulumi.com/deletionPropagationPolicy": "background"}
    labels = {**revision.pods.labels, **names.revision_labels(owner.name, revision.hash)}
    pod_labels = names.prefetch_pod_labels(owner.name, revision.hash)
    return Manifest(
        kind="Job",
        name=name,
        object={
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": stack_metadata(owner, name, labels, annotations),
            "spec": {
                "backoffLimit": _BACKOFF_LIMIT,
                "activeDeadlineSeconds": prefetch.deadline_seconds,
                "podFailurePolicy": {"rules": _failure_rules(prefetch)},
                "template": {
                    "metadata": pod.template_metadata(revision.pods, pod_labels),
                    "spec": _pod_spec(owner, revision, prefetch, store),
                },
            },
        },
        depends_on=(store,),
    )


def _failure_rules(prefetch: Prefetch) -> list[dict[str, Any]]:
    """Return the rules, of which the first that matches counts: a Pod that is evicted may end with any exit code."""
    return [_ignore_disruptions(), _fail_at_once()] if prefetch.ignores_disruptions else [_fail_at_once()]


def _ignore_disruptions() -> dict[str, Any]:
    return {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _fail_at_once() -> dict[str, Any]:
    return {
        "action": "FailJob",
        "onExitCodes": {
            "containerName": PREFETCH_CONTAINER,
            "operator": "In",
            "values": list(_PERMANENT_EXIT_CODES),
        },
    }


def _pod_spec(owner: Owner, revision: DesiredRevision, prefetch: Prefetch, store: ObjectKey) -> dict[str, Any]:
    volumes = [pod.store_volume(store.name), pod.state_volume()]
    if prefetch.seeded:
        volumes.append(_seed_volume(names.manifest_config_map(owner.name, revision.hash)))
    return {
        "restartPolicy": "Never",  # a failure policy demands it
        "automountServiceAccountToken": False,
        "securityContext": pod.pod_security_context(owner, revision.pods),
        **pod.pull_secrets(revision.pods),
        **pod.placement_fields(prefetch.placement),
        "containers": [_container(revision.hash, prefetch)],
        "volumes": volumes,
    }


def _container(revision: str, prefetch: Prefetch) -> dict[str, Any]:
    return {
        "name": PREFETCH_CONTAINER,
        "image": prefetch.image,
        "command": ["/bin/sh", "-c", prefetch.script],
        "env": pod.environment(prefetch.environment),
        "resources": dict(prefetch.resources),
        "securityContext": pod.container_security_context(),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(revision, prefetch),
    }


def _mounts(revision: str, prefetch: Prefetch) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": pod.STORE_VOLUME, "mountPath": paths.MODEL_STORE, "subPath": revision},
        {"name": pod.STATE_VOLUME, "mountPath": paths.RUNTIME_STATE},
    ]
    if prefetch.prune:
        mounts.append({"name": pod.STORE_VOLUME, "mountPath": paths.STORE_ROOT})
    if prefetch.seeded:
        mounts.append({"name": _SEED_VOLUME, "mountPath": paths.SEED_DIRECTORY, "readOnly": True})
    return mounts


def _seed_volume(config_map: str) -> dict[str, Any]:
    return {
        "name": _SEED_VOLUME,
        "configMap": {
            "name": config_map,
            "defaultMode": 0o444,
            "items": [{"key": paths.SEED_KEY, "path": paths.SEED_KEY}],
            # Without the recorded manifest the Pod must wait, not pull whatever the tag names by now.
            "optional": False,
        },
    }
