"""What the cluster holds for one DecisionModel, read from watched objects: pure functions over API JSON.

Ownership is judged by UID all along the chain Pod → ReplicaSet → Deployment → DecisionModel, so a Pod that merely wears
our labels never counts (spec section 6.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from api.conditions import Reason
from api.keys import (
    GATE,
    PREFETCH_REVISION_LABEL,
    PREFETCHED_ANNOTATION,
    REVISION_LABEL,
    STORE_RECOVERING_ANNOTATION,
)
from components import names
from components.desired import JsonObject, SecretKey
from components.manifests.deployment import SERVING_CONTAINER
from components.manifests.job import PREFETCH_CONTAINER
from reconciler.engine.prefetch import classify_failure
from reconciler.engine.workload import API_KEY_VARIABLE
from reconciler.rollout import ClaimFacts, PrefetchFacts, PrefetchState, RevisionFacts, ServingFacts, StoreState

_MISMATCHES = (Reason.DIGEST_MISMATCH, Reason.DEVICE_MISMATCH)
_ENDED = ("Failed", "Succeeded")
"""Phases of a Pod that no Pod ever leaves."""


@dataclass(frozen=True, slots=True)
class Children:
    """The watched objects that carry one DecisionModel's name label, by kind."""

    deployments: tuple[JsonObject, ...] = ()
    replica_sets: tuple[JsonObject, ...] = ()
    jobs: tuple[JsonObject, ...] = ()
    claims: tuple[JsonObject, ...] = ()
    services: tuple[JsonObject, ...] = ()
    budgets: tuple[JsonObject, ...] = ()
    pods: tuple[JsonObject, ...] = ()

    def of_stack(self) -> tuple[JsonObject, ...]:
        """Return the objects that the model's Pulumi stack may declare."""
        return (*self.claims, *self.jobs, *self.deployments, *self.budgets, *self.services)


def name_of(obj: JsonObject) -> str:
    """Return `metadata.name`."""
    return str(obj["metadata"]["name"])


def uid_of(obj: JsonObject) -> str:
    """Return `metadata.uid`."""
    return str(obj["metadata"]["uid"])


def controller_uid(obj: JsonObject) -> str | None:
    """Return the UID of the controlling owner; None when nothing controls the object."""
    for reference in obj["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def taken_name(found: JsonObject | None, kind: str, owner_uid: str) -> str | None:
    """Return what is wrong with the object under a name of `owner_uid`'s: another owner's; None when nothing is."""
    if found is None or controller_uid(found) == owner_uid:
        return None
    namespace, name = found["metadata"]["namespace"], name_of(found)
    return (
        f"{kind} {namespace}/{name} already exists and is not controlled by this DecisionModel; it is never touched:"
        f" rename it, or if nobody needs it: kubectl delete {kind.lower()} {name} -n {namespace}"
    )


def named(objects: Iterable[JsonObject], name: str, owner_uid: str) -> JsonObject | None:
    """Return the object called `name` if `owner_uid` controls it."""
    for obj in objects:
        if name_of(obj) == name and controller_uid(obj) == owner_uid:
            return obj
    return None


def terminating(obj: JsonObject) -> bool:
    """Whether the object is on its way out."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def conditions_of(obj: JsonObject) -> dict[str, Mapping[str, Any]]:
    """Return `status.conditions` by type."""
    return {condition["type"]: condition for condition in obj.get("status", {}).get("conditions") or ()}


def is_true(conditions: Mapping[str, Mapping[str, Any]], type_: str) -> bool:
    """Whether the condition exists and holds."""
    return conditions.get(type_, {}).get("status") == "True"


def has_ended(pod: JsonObject) -> bool:
    """Whether a Pod runs no more and never will: it holds neither memory nor a volume, however long it stays.

    Evictions, shutdowns of nodes and refused admissions leave such Pods, and a ReplicaSet never deletes them.
    """
    return pod.get("status", {}).get("phase") in _ENDED


def was_disrupted(pod: JsonObject) -> bool:
    """Whether somebody else ends the Pod: an eviction, a preemption, a drain, a shutdown of its node."""
    return is_true(conditions_of(pod), "DisruptionTarget")


def serving_pods(children: Children, owner_uid: str, revision: str) -> Iterator[JsonObject]:
    """Yield the Pods that serve `revision` and are not terminating."""
    return (pod for pod in _pods_of(children, owner_uid, revision) if not terminating(pod))


def _pods_of(children: Children, owner_uid: str, revision: str) -> Iterator[JsonObject]:
    """Yield the Pods of `revision` that can run or still do, those that are terminating included."""
    deployments = {uid_of(obj) for obj in children.deployments if controller_uid(obj) == owner_uid}
    replica_sets = {uid_of(obj) for obj in children.replica_sets if controller_uid(obj) in deployments}
    for pod in children.pods:
        if has_ended(pod) or pod["metadata"].get("labels", {}).get(REVISION_LABEL) != revision:
            continue
        if controller_uid(pod) in replica_sets:
            yield pod


def any_serves(children: Children, owner_uid: str) -> bool:
    """Whether Pods of any revision run or still may, those that are terminating included."""
    revisions = {str(pod["metadata"].get("labels", {}).get(REVISION_LABEL)) for pod in children.pods}
    return any(True for revision in revisions for _ in _pods_of(children, owner_uid, revision))


def selected_revision(children: Children, owner: str, owner_uid: str) -> str | None:
    """Return the revision that the live Service selects; None without a Service of ours."""
    service = named(children.services, owner, owner_uid)
    if service is None:
        return None
    selected = (service["spec"].get("selector") or {}).get(REVISION_LABEL)
    return str(selected) if selected else None


def claim_of(children: Children, owner: str, owner_uid: str, revision: str) -> JsonObject | None:
    """Return the claim that holds a revision's store."""
    shared = uses_shared_store(children, owner, owner_uid, revision)
    return named(children.claims, names.store(owner, revision, shared=shared), owner_uid)


def uses_shared_store(children: Children, owner: str, owner_uid: str, revision: str) -> bool:
    """Whether a revision serves from the one claim of all revisions of version 0.3."""
    deployment = named(children.deployments, names.deployment(owner, revision), owner_uid)
    if deployment is None or not names.is_legacy(revision):
        return False
    shared = names.store(owner, revision, shared=True)
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
    return any(volume.get("persistentVolumeClaim", {}).get("claimName") == shared for volume in volumes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is recorded about a revision that its objects cannot tell."""

    proved_before: datetime | None = None
    """When it had proved itself at the latest, if it has."""
    verified_store: str = ""
    """UID of the claim that a Job was seen to have filled."""


_NO_PAST = Past()


def revision_facts(
    children: Children, owner: str, owner_uid: str, revision: str, past: Past = _NO_PAST
) -> RevisionFacts:
    """Return what exists for `revision` of the DecisionModel called `owner`.

    Args:
        children: The DecisionModel's objects.
        owner: Its name.
        owner_uid: Its UID.
        revision: The revision's hash.
        past: What is recorded about it.
    """
    claim = claim_of(children, owner, owner_uid, revision)
    job = named(children.jobs, names.prefetch_job(owner, revision), owner_uid)
    deployment = named(children.deployments, names.deployment(owner, revision), owner_uid)
    prefetch = replace(_prefetch_facts(job, children), stale=_predates(job, claim))
    return RevisionFacts(
        store=_store_state(claim, prefetch, past),
        claim=None if claim is None else _claim_facts(claim),
        verified=claim is not None and uid_of(claim) == past.verified_store,
        prefetch=prefetch,
        serving=_serving_facts(deployment, tuple(_pods_of(children, owner_uid, revision))),
    )


def _store_state(claim: JsonObject | None, prefetch: PrefetchFacts, past: Past) -> StoreState:
    if claim is None:
        return StoreState.ABSENT
    if terminating(claim):
        return StoreState.TERMINATING
    marked = (claim["metadata"].get("annotations") or {}).get(STORE_RECOVERING_ANNOTATION) == "true"
    # An operation that was planned before a loss has no reason to mark the claim that it creates once more.
    unmarked = _is_another(claim, past) and not prefetch.has_filled_the_store
    return StoreState.RECOVERING if marked or unmarked else StoreState.PRESENT


def _is_another(claim: JsonObject, past: Past) -> bool:
    """Whether the claim is not the one that its revision proved itself on.

    Records of earlier versions do not name that one: there a claim is another that was created after the proof.
    """
    if past.verified_store:
        return uid_of(claim) != past.verified_store
    proved = past.proved_before
    return proved is not None and datetime.fromisoformat(claim["metadata"]["creationTimestamp"]) > proved


def _claim_facts(claim: JsonObject) -> ClaimFacts:
    spec = claim["spec"]
    return ClaimFacts(
        uid=uid_of(claim),
        size=str(spec["resources"]["requests"]["storage"]),
        access_modes=tuple(spec.get("accessModes") or ()),
        storage_class_name=spec.get("storageClassName"),
    )


def _predates(job: JsonObject | None, claim: JsonObject | None) -> bool:
    """Whether the Job was created before the claim; both stamps are RFC 3339 in UTC, in whole seconds."""
    if job is None or claim is None:
        return False
    return str(job["metadata"]["creationTimestamp"]) < str(claim["metadata"]["creationTimestamp"])


def _prefetch_facts(job: JsonObject | None, children: Children) -> PrefetchFacts:
    if job is None or terminating(job):
        return PrefetchFacts()
    conditions = conditions_of(job)
    if is_true(conditions, "Complete") or has_done_its_work(job, children.pods):
        return PrefetchFacts(state=PrefetchState.COMPLETE, uid=uid_of(job))
    # The Job's own deadline is the caching deadline: the state machine's clock says so with the better reason.
    ended = is_true(conditions, "Failed")
    if not ended or conditions["Failed"].get("reason") == "DeadlineExceeded":
        return PrefetchFacts(state=PrefetchState.RUNNING, uid=uid_of(job), expired=ended)
    failure = classify_failure(*_last_termination(job, children.pods))
    return PrefetchFacts(
        state=PrefetchState.FAILED,
        uid=uid_of(job),
        failure=failure.reason,
        detail=failure.detail,
        permanent=failure.permanent,
    )


def has_done_its_work(job: JsonObject, pods: Iterable[JsonObject]) -> bool:
    """Whether a prefetch Job's own container has ended with 0 while another one, which somebody injected, runs on.

    Such a Job never completes. Once it was released, its Pod is gone and its mark says so.
    """
    return is_released(job) or any(_lingers(pod) for pod in pods if controller_uid(pod) == uid_of(job))


def is_released(job: JsonObject) -> bool:
    """Whether the Job bears the mark of having done its work."""
    return (job["metadata"].get("annotations") or {}).get(PREFETCHED_ANNOTATION) == "true"


def lingering_jobs(children: Children, owner_uid: str) -> Iterator[JsonObject]:
    """Yield the Jobs of `owner_uid` that have done their work, and whose Pods still hold the store."""
    for job in children.jobs:
        if controller_uid(job) == owner_uid and not is_released(job) and has_done_its_work(job, children.pods):
            yield job


def _lingers(pod: JsonObject) -> bool:
    """Whether the prefetch has ended with 0 and another container has not ended.

    One Pod is Running for a moment after all its containers have ended: the kubelet names the last phase only once it
    has taken the Pod down (pkg/kubelet, generateAPIPodStatus). Its Job completes by itself.
    """
    status = pod.get("status") or {}
    states = {
        container.get("name"): container.get("state") or {} for container in status.get("containerStatuses") or ()
    }
    ended = states.pop(PREFETCH_CONTAINER, {}).get("terminated") or {}
    others_run = any("terminated" not in state for state in states.values())
    return status.get("phase") == "Running" and ended.get("exitCode") == 0 and others_run


def ignores_disruptions(job: JsonObject) -> bool:
    """Whether a prefetch Job tries again after evictions without end; those of earlier versions count each one."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    return any(rule.get("onPodConditions") for rule in rules)


def is_seeded(job: JsonObject, config_map: str) -> bool:
    """Whether a prefetch Job was given the manifest that `config_map` keeps."""
    volumes = job["spec"]["template"]["spec"].get("volumes") or ()
    return any(volume.get("configMap", {}).get("name") == config_map for volume in volumes)


def _last_termination(job: JsonObject, pods: Iterable[JsonObject]) -> tuple[str, int | None]:
    """Return termination message and exit code of the Job's newest Pod that failed by itself."""
    failed = [
        pod
        for pod in pods
        if PREFETCH_REVISION_LABEL in pod["metadata"].get("labels", {})
        and controller_uid(pod) == uid_of(job)
        and pod.get("status", {}).get("phase") == "Failed"
        and not was_disrupted(pod)
    ]
    for pod in sorted(failed, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True):
        for status in pod["status"].get("containerStatuses") or ():
            terminated = status.get("state", {}).get("terminated")
            if terminated:
                return str(terminated.get("message", "")), terminated.get("exitCode")
    return "", None


def _serving_facts(deployment: JsonObject | None, every_pod: tuple[JsonObject, ...]) -> ServingFacts:
    if deployment is None:
        return ServingFacts()
    progressing = conditions_of(deployment).get("Progressing", {})
    exceeded = progressing.get("reason") == "ProgressDeadlineExceeded"
    pods = tuple(pod for pod in every_pod if not terminating(pod))
    ready = sum(is_model_ready(pod) for pod in pods)
    wanted = deployment["spec"].get("replicas", 1)
    return ServingFacts(
        exists=True,
        pods=len(every_pod),
        current=len(pods),
        model_ready=ready,
        away=max(0, wanted - ready - sum(map(_has_lost_its_proof, pods))),
        held_up=any(map(_finds_no_node, pods)) or is_true(conditions_of(deployment), "ReplicaFailure"),
        rolling=not exceeded and _is_rolling(deployment, progressing),
        progress_deadline_exceeded=exceeded,
        mismatched_gates=tuple(sorted({reason for pod in pods if (reason := _mismatch(pod))})),
        crash_looping=any(map(_is_crash_looping, pods)),
    )


def is_model_ready(pod: JsonObject) -> bool:
    """Whether the gate is open and the kubelet agrees: only then is the Pod in the Service's endpoints."""
    conditions = conditions_of(pod)
    return is_true(conditions, GATE) and is_true(conditions, "Ready")


def _has_lost_its_proof(pod: JsonObject) -> bool:
    """Whether the Pod was judged and cannot serve, by itself.

    One whose gate was never written still starts. One that only the kubelet's word is missing for is on a node that
    nobody hears of.
    """
    conditions = conditions_of(pod)
    judged = GATE in conditions and not was_disrupted(pod) and not is_model_ready(pod)
    return judged and not (is_true(conditions, GATE) and is_true(conditions, "ContainersReady"))


def _finds_no_node(pod: JsonObject) -> bool:
    return conditions_of(pod).get("PodScheduled", {}).get("reason") == "Unschedulable"


def _is_rolling(deployment: JsonObject, progressing: Mapping[str, Any]) -> bool:
    observed = deployment.get("status", {}).get("observedGeneration", 0)
    if observed < deployment["metadata"].get("generation", 0):
        return True
    return progressing.get("status") == "True" and progressing.get("reason") != "NewReplicaSetAvailable"


def _mismatch(pod: JsonObject) -> Reason | None:
    gate = conditions_of(pod).get(GATE, {})
    if gate.get("status") == "False" and gate.get("reason") in _MISMATCHES:
        return Reason(gate["reason"])
    return None


def _is_crash_looping(pod: JsonObject) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any(status.get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff" for status in statuses)


def api_key_of(pod_spec: JsonObject) -> SecretKey | None:
    """Return where the serving container of a Pod, or of a Pod template, gets its API key from; None without one."""
    for container in pod_spec.get("containers") or ():
        if container["name"] == SERVING_CONTAINER:
            variables = {each["name"]: each.get("valueFrom") or {} for each in container.get("env") or ()}
            reference = variables.get(API_KEY_VARIABLE, {}).get("secretKeyRef")
            return SecretKey(name=reference["name"], key=reference["key"]) if reference else None
    return None
