"""What keeps a revision's Pods and store from coming about: pure functions over watched objects.

Pods and the Deployment's `ReplicaFailure` say most of it themselves. A Job that gets no Pod, a claim that is not bound
and a Pod whose volumes cannot be mounted say so by Events only, which are read elsewhere and handed in as notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from api.conditions import Reason
from components import names
from components.desired import JsonObject
from components.manifests.job import PREFETCH_CONTAINER
from reconciler.controller.cluster_words import shortened
from reconciler.controller.observation import (
    Children,
    claim_of,
    conditions_of,
    controller_uid,
    has_ended,
    is_model_ready,
    is_released,
    is_true,
    name_of,
    named,
    serving_pods,
    terminating,
    uid_of,
)
from reconciler.rollout import Obstacle, RevisionFacts

# What the kubelet calls a waiting container (pkg/kubelet/images and pkg/kubelet/kuberuntime), and what it comes to.
_WAITING: Final[Mapping[str, Reason]] = {
    "ErrImagePull": Reason.IMAGE_PULL_BACK_OFF,
    "ImagePullBackOff": Reason.IMAGE_PULL_BACK_OFF,
    "ErrImageNeverPull": Reason.IMAGE_PULL_BACK_OFF,
    "ImageInspectError": Reason.IMAGE_PULL_BACK_OFF,
    "RegistryUnavailable": Reason.IMAGE_PULL_BACK_OFF,
    "SignatureValidationFailed": Reason.IMAGE_PULL_BACK_OFF,
    "InvalidImageName": Reason.INVALID_IMAGE_NAME,
    "CreateContainerConfigError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "PreCreateHookError": Reason.CREATE_CONTAINER_ERROR,
    "CreateContainerError": Reason.CREATE_CONTAINER_ERROR,
    "PreStartHookError": Reason.RUN_CONTAINER_ERROR,
    "RunContainerError": Reason.RUN_CONTAINER_ERROR,
    "PostStartHookError": Reason.RUN_CONTAINER_ERROR,
}
_UNHURRIED: Final = ("ContainerCreating", "PodInitializing")

REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.IMAGE_PULL_BACK_OFF: "check the image, and whether nodes reach its registry and may pull from it",
    Reason.INVALID_IMAGE_NAME: "correct spec.image",
    Reason.CREATE_CONTAINER_CONFIG_ERROR: "create what is missing, or correct the reference to it",
    Reason.CREATE_CONTAINER_ERROR: "see its Events (kubectl describe pod)",
    Reason.RUN_CONTAINER_ERROR: "see its Events (kubectl describe pod)",
    Reason.CRASH_LOOP_BACK_OFF: "see its log (kubectl logs --previous)",
    Reason.OOM_KILLED: "give the container more memory",
    Reason.EVICTED: "free what the node is short of, or request what the Pod uses",
    Reason.UNEXPECTED_ADMISSION_ERROR: "see what the node lacks (kubectl describe node)",
    Reason.UNSCHEDULABLE: "make room, or change spec.resources or spec.scheduling",
    Reason.SCHEDULING_GATED: "find out who holds it back (its spec.schedulingGates)",
    Reason.FAILED_CREATE: "meet or change what refuses Pods in this namespace",
    Reason.FAILED_CREATE_POD_SANDBOX: "see the node's network and runtime (kubectl describe pod)",
    Reason.FAILED_ATTACH_VOLUME: "see which Pod or node still holds the volume",
    Reason.FAILED_MOUNT: "create what is missing, or see the volume (kubectl describe pod)",
    Reason.FAILED_BINDING: "set spec.cache.storageClassName, or give the cluster a default StorageClass",
    Reason.PROVISIONING_FAILED: "create the StorageClass, or correct spec.cache",
    Reason.SIDECAR_RUNNING: "keep the Job's Pods out of the injection, or have the container end by itself",
}
"""What to do about each obstacle; its keys are all that there are."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the last telling Event about an object says; both are empty when there is none."""

    reason: str = ""
    message: str = ""


Notices = Mapping[str, Notice]
"""By the UID of the object, and only for objects about which Events were asked."""

TELLING: Final[Mapping[str, Mapping[str, Reason]]] = {
    "Job": {"FailedCreate": Reason.FAILED_CREATE},
    "PersistentVolumeClaim": {
        "FailedBinding": Reason.FAILED_BINDING,
        "ProvisioningFailed": Reason.PROVISIONING_FAILED,
    },
    "Pod": {
        "FailedMount": Reason.FAILED_MOUNT,
        "FailedAttachVolume": Reason.FAILED_ATTACH_VOLUME,
        "FailedCreatePodSandBox": Reason.FAILED_CREATE_POD_SANDBOX,
    },
}
"""The Events that tell an obstacle, by the kind they are about."""


def silent_objects(children: Children, owner_uid: str) -> Iterator[JsonObject]:
    """Yield the objects that make no progress and do not say why: Jobs without Pods, unbound claims, slow Pods."""
    yield from (job for job in _under_way(children.jobs, owner_uid) if not _pods_of_job(job, children))
    for claim in children.claims:
        if controller_uid(claim) == owner_uid and _is_pending(claim):
            yield claim
    yield from (pod for pod in children.pods if _is_live(pod) and _is_unhurried(pod))


def obstructed(  # noqa: PLR0913 - whose revision, and what is known about it
    facts: RevisionFacts, children: Children, owner: str, owner_uid: str, revision: str, notices: Notices
) -> RevisionFacts:
    """Return the facts about a revision with what keeps its Job and its Pods from getting further."""
    claim = claim_of(children, owner, owner_uid, revision)
    job = named(children.jobs, names.prefetch_job(owner, revision), owner_uid)
    deployment = named(children.deployments, names.deployment(owner, revision), owner_uid)
    pods = tuple(pod for pod in serving_pods(children, owner_uid, revision) if not is_model_ready(pod))
    return replace(
        facts,
        prefetch=replace(facts.prefetch, obstacle=_of_prefetch(job, claim, children, notices)),
        serving=replace(facts.serving, obstacle=_of_serving(deployment, claim, pods, notices)),
    )


def _of_prefetch(
    job: JsonObject | None, claim: JsonObject | None, children: Children, notices: Notices
) -> Obstacle | None:
    if job is None or not _is_under_way(job):
        return None
    pods = _pods_of_job(job, children)
    return _first(_of_claim(claim, notices), _of_pods(pods, notices), _of_podless(job, pods, notices))


def _of_serving(
    deployment: JsonObject | None, claim: JsonObject | None, pods: tuple[JsonObject, ...], notices: Notices
) -> Obstacle | None:
    if deployment is None:
        return None
    return _first(_of_claim(claim, notices), _of_pods(pods, notices), _of_replica_failure(deployment))


def _first(*found: Obstacle | None) -> Obstacle | None:
    return next((each for each in found if each is not None), None)


def _of_pods(pods: Iterable[JsonObject], notices: Notices) -> Obstacle | None:
    """Return the obstacle of the first Pod that has one: of one that can still run, else of one that ended."""
    ordered = sorted(pods, key=name_of)
    live = (_of_live(pod, notices) for pod in ordered if _is_live(pod))
    ended = (_of_ended(pod) for pod in ordered if pod.get("status", {}).get("phase") == "Failed")
    has_live = any(map(_is_live, ordered))
    return _first(*live, *(() if has_live else ended))


def _of_live(pod: JsonObject, notices: Notices) -> Obstacle | None:
    return _first(_unscheduled(pod), *(_of_container(pod, each) for each in _containers(pod)), _left_over(pod)) or (
        _noticed("Pod", pod, notices) if _is_unhurried(pod) else None
    )


def _unscheduled(pod: JsonObject) -> Obstacle | None:
    scheduled = conditions_of(pod).get("PodScheduled", {})
    if scheduled.get("status") != "False":
        return None
    reason = Reason.SCHEDULING_GATED if scheduled.get("reason") == "SchedulingGated" else Reason.UNSCHEDULABLE
    return _obstacle(reason, "Pod", pod, scheduled.get("message") or reason)


def _of_container(pod: JsonObject, status: Mapping[str, Any]) -> Obstacle | None:
    """Return what keeps one container from running, or from staying so."""
    waiting = status.get("state", {}).get("waiting") or {}
    if reason := _WAITING.get(waiting.get("reason", "")):
        return _obstacle(reason, "Pod", pod, f"{_of_image(status, reason)}{_told(waiting)}")
    last = (status.get("lastState") or {}).get("terminated") or {}
    if last.get("reason") == "OOMKilled":
        return _obstacle(Reason.OOM_KILLED, "Pod", pod, f"container {status['name']} needed more than its memory limit")
    if waiting.get("reason") == "CrashLoopBackOff" or (last.get("exitCode") and status.get("restartCount", 0) > 1):
        words = f"container {status['name']} ends again and again, with exit code {last.get('exitCode')}"
        return _obstacle(Reason.CRASH_LOOP_BACK_OFF, "Pod", pod, words)
    return None


def _of_image(status: Mapping[str, Any], reason: Reason) -> str:
    about_image = reason in {Reason.IMAGE_PULL_BACK_OFF, Reason.INVALID_IMAGE_NAME}
    return f"image {shortened(status.get('image'), 120)}: " if about_image else f"container {status['name']}: "


def _told(waiting: Mapping[str, Any]) -> str:
    return shortened(waiting.get("message")) or str(waiting["reason"])


def _left_over(pod: JsonObject) -> Obstacle | None:
    """Return that the prefetch has ended and another container has not: then neither does the Job."""
    states = {
        status["name"]: status.get("state", {}) for status in pod.get("status", {}).get("containerStatuses") or ()
    }
    ended = states.pop(PREFETCH_CONTAINER, {}).get("terminated")
    running = sorted(name for name, state in states.items() if "running" in state)
    if not ended or not running:
        return None
    words = f"container {PREFETCH_CONTAINER} has ended with {ended.get('exitCode')}, but {', '.join(running)} runs on"
    return _obstacle(Reason.SIDECAR_RUNNING, "Pod", pod, words)


def _of_ended(pod: JsonObject) -> Obstacle | None:
    """Return why a Pod failed, where it is the node's doing or the limit's: for all else the container has words."""
    status = pod["status"]
    if reason := status.get("reason"):
        known = Reason.EVICTED if reason == "Evicted" else Reason.UNEXPECTED_ADMISSION_ERROR
        return _obstacle(known, "Pod", pod, f"{reason}: {status.get('message', '')}")
    for container in _containers(pod):
        if (container.get("state", {}).get("terminated") or {}).get("reason") == "OOMKilled":
            words = f"container {container['name']} needed more than its memory limit"
            return _obstacle(Reason.OOM_KILLED, "Pod", pod, words)
    return None


def _of_podless(job: JsonObject, pods: tuple[JsonObject, ...], notices: Notices) -> Obstacle | None:
    if pods or uid_of(job) not in notices:
        return None
    words = notices[uid_of(job)].message or "no Pod was made so far, and no Event says why"
    return _obstacle(Reason.FAILED_CREATE, "Job", job, words)


def _of_replica_failure(deployment: JsonObject) -> Obstacle | None:
    failure = conditions_of(deployment).get("ReplicaFailure", {})
    if failure.get("status") != "True":
        return None
    return _obstacle(Reason.FAILED_CREATE, "Deployment", deployment, failure.get("message") or "its Pods are refused")


def _of_claim(claim: JsonObject | None, notices: Notices) -> Obstacle | None:
    return _noticed("PersistentVolumeClaim", claim, notices) if claim is not None and _is_pending(claim) else None


def _noticed(kind: str, obj: JsonObject, notices: Notices) -> Obstacle | None:
    notice = notices.get(uid_of(obj), Notice())
    reason = TELLING[kind].get(notice.reason)
    return None if reason is None else _obstacle(reason, kind, obj, notice.message)


def _obstacle(reason: Reason, kind: str, obj: JsonObject, words: str) -> Obstacle:
    return Obstacle(reason=reason, kind=kind, name=name_of(obj), words=shortened(words), remedy=REMEDIES[reason])


def _under_way(jobs: Iterable[JsonObject], owner_uid: str) -> Iterator[JsonObject]:
    return (job for job in jobs if controller_uid(job) == owner_uid and _is_under_way(job))


def _is_under_way(job: JsonObject) -> bool:
    conditions = conditions_of(job)
    ended = is_true(conditions, "Complete") or is_true(conditions, "Failed") or is_released(job)
    return not terminating(job) and not ended


def _pods_of_job(job: JsonObject, children: Children) -> tuple[JsonObject, ...]:
    return tuple(pod for pod in children.pods if controller_uid(pod) == uid_of(job))


def _is_pending(claim: JsonObject) -> bool:
    return not terminating(claim) and claim.get("status", {}).get("phase") == "Pending"


def _is_live(pod: JsonObject) -> bool:
    return not terminating(pod) and not has_ended(pod)


def _is_unhurried(pod: JsonObject) -> bool:
    """Whether a container is being prepared, which can take for ever without a word."""
    waiting = (status.get("state", {}).get("waiting") or {} for status in _containers(pod))
    return any(each.get("reason") in _UNHURRIED for each in waiting)


def _containers(pod: JsonObject) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status", {})
    return chain(status.get("initContainerStatuses") or (), status.get("containerStatuses") or ())
