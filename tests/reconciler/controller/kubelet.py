"""What controllers and kubelets of a cluster do: Jobs end, Deployments get ReplicaSets and Pods, Pods become ready."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from api.keys import GATE
from reconciler.controller.observation import conditions_of, controller_uid, has_ended, is_true, terminating
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS
from reconciler.kernel.resources import Resource
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.json_copy import json_copy
from tests.reconciler.controller.clocks import ManualClock
from tests.reconciler.controller.runtimes import FakeRuntime, Runtimes

Object = dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """How a prefetch Pod ended."""

    exit_code: int = 4
    message: str = "reason: DigestMismatch\ndetail: the store holds other bytes"
    reason: str = "PodFailurePolicy"


def environment_of(template: Object) -> dict[str, Any]:
    """Return the variables of the only container, as values or references."""
    variables = template["spec"]["containers"][0]["env"]
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in variables}


class Kubelet:
    """Moves the cluster on by one step per `sync`, as far as its switches allow.

    Attributes:
        prefetch: How Jobs end, by name: None completes them, False leaves them running.
        collects_jobs: Whether Jobs vanish once they have ended, as with a TTL or a janitor.
        starts_containers: Whether new Pods get containers and an address.
        runtime: Makes the runtime of a new Pod from its template; tests replace it to get a wrong one.
        clock_ahead: By how many seconds the node's clock is ahead of everybody else's.
        has_room: Whether new Pods can be scheduled.
        refuse: Why admission refuses the Pods of a Job or a ReplicaSet, which nobody but their controllers is told.
        obstruct: The status of a Pod that gets no further than that.
        provision: Why a claim's volume cannot be made.
        inject: The container that a mutating webhook adds to the Pods of Jobs; it never ends.
    """

    def __init__(self, server: FakeApiServer, runtimes: Runtimes, clock: ManualClock) -> None:
        self.server = server
        self.runtimes = runtimes
        self.clock = clock
        self.prefetch: Callable[[str], Failed | bool | None] = lambda _: None
        self.starts_containers = True
        self.clock_ahead = 0.0
        self.has_room = True
        self.collects_jobs = False
        self.adjust: Callable[[FakeRuntime], object] = lambda _: None
        self.refuse: Callable[[Object], str | None] = lambda _: None
        self.obstruct: Callable[[Object], Object | None] = lambda _: None
        self.provision: Callable[[Object], str | None] = lambda _: None
        self.inject = ""
        self.inject_exit = 0
        self._stores: dict[str, str] = {}
        self._seen = 0

    async def sync_changes(self) -> bool:
        """Sync if anything changed since; a switch that was turned is seen by `sync` alone."""
        return self._seen != self.server.store.version and await self.sync()

    async def sync(self) -> bool:
        """Let everything happen that is due; returns whether anything did."""
        before = self._seen = self.server.store.version
        for claim in self._all(CLAIMS):
            self._bind(claim)
        for job in self._all(JOBS):
            self._run_job(job)
        for deployment in self._all(DEPLOYMENTS):
            await self._roll(deployment)
        for pod in self._all(PODS):
            await self._start(pod)
            self._judge(pod)
        return self.server.store.version != before

    def runtime_of(self, pod: Object) -> FakeRuntime:
        """The runtime behind a Pod."""
        return self.runtimes.by_address[pod["status"]["podIP"]]

    def restart(self, pod: Object) -> None:
        """Let the containers of a Pod start anew, with empty memory."""
        self.runtime_of(pod).loaded = None
        changed = json_copy(pod)
        changed["status"]["containerStatuses"] = [{"name": "ollaya", "restartCount": 1, "state": {"running": {}}}]
        self._set_condition(changed, "ContainersReady", "True", since=self._stamp())
        self._put(PODS, changed)

    def evict(self, pod: Object) -> None:
        """End a Pod as a node under pressure does: the object stays, in phase Failed, and nobody deletes it."""
        changed = json_copy(pod)
        ended = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        conditions = [each for each in changed["status"].get("conditions", []) if each["type"] == GATE]
        changed["status"] = {**ended, "podIP": changed["status"].get("podIP", ""), "conditions": conditions}
        self._set_condition(changed, "DisruptionTarget", "True", since=self._stamp())
        for type_ in ("ContainersReady", "Ready"):
            self._set_condition(changed, type_, "False", since=self._stamp())
        self._put(PODS, changed)

    def _stamp(self) -> str:
        """The time by the node's clock."""
        return (self.clock.now() + timedelta(seconds=self.clock_ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _all(self, resource: Resource) -> list[Object]:
        return self.server.objects(resource.api_version, resource.plural)

    def _put(self, resource: Resource, obj: Object) -> Object:
        return self.server.put(resource.api_version, resource.plural, obj)

    def _run_job(self, job: Object) -> None:
        conditions = conditions_of(job)
        if is_true(conditions, "Complete") or is_true(conditions, "Failed"):
            if self.collects_jobs:
                self.server.remove("batch/v1", "jobs", *_key(job))
            return
        if terminating(job):
            return
        if job["spec"].get("suspend"):
            self._suspend(job)
            return
        outcome = self.prefetch(job["metadata"]["name"]) if self._run_pod(job) else False
        if outcome is False:
            if not self._is_overdue(job):
                return
            outcome = Failed(reason="DeadlineExceeded", message="")
        if isinstance(outcome, Failed):
            self._put(PODS, self._failed_pod(job, outcome))
            ended = {"type": "Failed", "status": "True", "reason": outcome.reason}
        else:
            self._fill(job)
            ended = {"type": "Complete", "status": "True"}
        self._put(JOBS, {**json_copy(job), "status": {"conditions": [ended]}})

    def _fill(self, job: Object) -> None:
        template = job["spec"]["template"]
        claim = template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        self._stores[claim] = environment_of(template)["EXPECT_DIGEST"]

    def _suspend(self, job: Object) -> None:
        """As the Job controller does: the Pods that run are deleted, and the Job says that it waits."""
        for pod in self._owned(PODS, job):
            self.server.remove("v1", "pods", *_key(pod))
        if not is_true(conditions_of(job), "Suspended"):
            waiting = {"type": "Suspended", "status": "True", "reason": "JobSuspended"}
            self._put(JOBS, {**json_copy(job), "status": {"conditions": [waiting]}})

    def _is_overdue(self, job: Object) -> bool:
        began = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
        return self.clock.now() - began >= timedelta(seconds=job["spec"]["activeDeadlineSeconds"])

    def _run_pod(self, job: Object) -> bool:
        """Make a Job's Pod; returns whether it can come to its end."""
        if message := self.refuse(job):
            # As the Job controller says it: the Pod that was not created has another name each time.
            self._tell(
                job, "FailedCreate", f'Error creating: pods "{job["metadata"]["name"]}-x" is forbidden: {message}'
            )
            return False
        template = job["spec"]["template"]
        pod = self._child(job, "Job", f"{job['metadata']['name']}-x", template["metadata"]["labels"])
        pod = self._put_missing(PODS, {**pod, "kind": "Pod", "spec": json_copy(template["spec"])})
        status = self.obstruct(pod) or {"phase": "Running", "containerStatuses": [_running("prefetch")]}
        if self.inject and not self.obstruct(pod):
            ended = {"name": "prefetch", "state": {"terminated": {"exitCode": self.inject_exit, "reason": "Ended"}}}
            if self.inject_exit == 0:
                self._fill(job)
            status = {"phase": "Running", "containerStatuses": [ended, _running(self.inject)]}
        self._put(PODS, {**json_copy(pod), "status": status})
        return not self.inject and self.obstruct(pod) is None

    def _bind(self, claim: Object) -> None:
        """A claim waits for its volume for as long as that cannot be made."""
        message = self.provision(claim)
        if message:
            self._put(CLAIMS, {**json_copy(claim), "status": {"phase": "Pending"}})
            self._tell(claim, "ProvisioningFailed", message)
        elif claim.get("status", {}).get("phase") == "Pending":
            self._put(CLAIMS, {**json_copy(claim), "status": {"phase": "Bound"}})

    def _tell(self, about: Object, reason: str, message: str) -> None:
        metadata = about["metadata"]
        event = {
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{reason.lower()}", "namespace": metadata["namespace"]},
            "involvedObject": {"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": self.clock.stamp(),
        }
        known = self.server.object("v1", "events", *_key(event))
        if known is None or known["message"] != message:
            self.server.put("v1", "events", event)

    def _failed_pod(self, job: Object, outcome: Failed) -> Object:
        name = f"{job['metadata']['name']}-x"
        terminated = {"exitCode": outcome.exit_code, "message": outcome.message}
        return {
            **self._child(job, "Job", name, job["spec"]["template"]["metadata"]["labels"]),
            "kind": "Pod",
            "status": {
                "phase": "Failed",
                "containerStatuses": [{"name": "prefetch", "state": {"terminated": terminated}}],
            },
        }

    async def _roll(self, deployment: Object) -> None:
        if terminating(deployment):
            return
        template = deployment["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]
        wanted = f"{deployment['metadata']['name']}-{digest}"
        for replica_set in self._owned(REPLICA_SETS, deployment):
            if replica_set["metadata"]["name"] != wanted:
                self.server.remove("apps/v1", "replicasets", *_key(replica_set))
        replica_set = self._put_missing(
            REPLICA_SETS,
            {**self._child(deployment, "Deployment", wanted, template["metadata"]["labels"]), "kind": "ReplicaSet"},
        )
        conditions = [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]
        if message := self.refuse(replica_set):
            refused = f'pods "{wanted}-x" is forbidden: {message}'
            conditions = [
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused},
            ]
        else:
            await self._scale(replica_set, deployment["spec"]["replicas"], template)
        generation = deployment["metadata"]["generation"]
        status = {"observedGeneration": generation, "conditions": conditions}
        self._put(DEPLOYMENTS, {**json_copy(deployment), "status": status})

    async def _scale(self, replica_set: Object, replicas: int, template: Object) -> None:
        """As a ReplicaSet does: Pods that have ended neither count nor go, whatever it is scaled to."""
        pods = self._owned(PODS, replica_set)
        active = [pod for pod in pods if not has_ended(pod)]
        for pod in active[replicas:]:
            self.server.remove("v1", "pods", *_key(pod))
        taken = {pod["metadata"]["name"] for pod in pods}
        names = (f"{replica_set['metadata']['name']}-{number}" for number in itertools.count())
        free = (name for name in names if name not in taken)
        for pod_name in itertools.islice(free, max(0, replicas - len(active))):
            pod = self._child(replica_set, "ReplicaSet", pod_name, template["metadata"]["labels"])
            self._put_missing(PODS, {**pod, "kind": "Pod", "spec": json_copy(template["spec"])})

    async def _start(self, pod: Object) -> None:
        if not self.starts_containers or "containers" not in pod.get("spec", {}) or pod.get("status", {}).get("podIP"):
            return
        if controller_uid(pod) in {job["metadata"]["uid"] for job in self._all(JOBS)}:
            return
        if status := self.obstruct(pod):
            judged = [each for each in pod.get("status", {}).get("conditions", []) if each["type"] == "Ready"]
            status = {**status, "conditions": [*status.get("conditions", []), *judged]}
            self._put(PODS, {**json_copy(pod), "status": status})
            return
        changed = json_copy(pod)
        if not self.has_room:
            self._refuse(changed)
            return
        changed["status"] = {"phase": "Running", "podIP": await self.runtimes.start(self._runtime(pod))}
        self._set_condition(changed, "ContainersReady", "True", since=self._stamp())
        self._put(PODS, changed)

    def _refuse(self, pod: Object) -> None:
        """Find no node for a Pod, as the scheduler says it."""
        if "conditions" in pod.get("status", {}):
            return
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        pod["status"] = {"phase": "Pending", "conditions": [refused]}
        self._put(PODS, pod)

    def _runtime(self, pod: Object) -> FakeRuntime:
        environment = environment_of(pod)
        claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        runtime = FakeRuntime(
            digest=self._stores.get(claim, ""),
            device=environment["OLLAYA_DEVICE"],
            api_key=self._secret(pod["metadata"]["namespace"], environment.get("OLLAYA_API_KEY")),
        )
        self.adjust(runtime)
        return runtime

    def _secret(self, namespace: str, reference: Any) -> str | None:
        if reference is None:
            return None
        key = reference["secretKeyRef"]
        secret = self.server.object("v1", "secrets", namespace, key["name"])
        assert secret is not None
        return base64.b64decode(secret["data"][key["key"]]).decode().strip()

    def _judge(self, pod: Object) -> None:
        """A Pod is ready once its containers and every gate of it are."""
        live = self.server.object("v1", "pods", *_key(pod))
        if (
            live is None
            or "readinessGates" not in live.get("spec", {})
            or live.get("status", {}).get("phase") == "Failed"
        ):
            return
        conditions = conditions_of(live)
        ready = is_true(conditions, "ContainersReady") and is_true(conditions, GATE)
        status = "True" if ready else "False"
        if conditions.get("Ready", {}).get("status") != status:
            changed = json_copy(live)
            self._set_condition(changed, "Ready", status, since=self._stamp())
            self._put(PODS, changed)

    def _set_condition(self, obj: Object, type_: str, status: str, *, since: str) -> None:
        status_of = obj.setdefault("status", {})
        others = [each for each in status_of.get("conditions", []) if each["type"] != type_]
        status_of["conditions"] = [*others, {"type": type_, "status": status, "lastTransitionTime": since}]

    def _owned(self, resource: Resource, owner: Object) -> list[Object]:
        return [obj for obj in self._all(resource) if controller_uid(obj) == owner["metadata"]["uid"]]

    def _put_missing(self, resource: Resource, obj: Object) -> Object:
        namespace, name = _key(obj)
        live = self.server.object(resource.api_version, resource.plural, namespace, name)
        return live or self._put(resource, obj)

    def _child(self, owner: Object, kind: str, name: str, labels: Object) -> Object:
        reference = {
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(labels),
            "ownerReferences": [reference],
        }
        return {"metadata": metadata}


def _running(container: str) -> Object:
    return {"name": container, "state": {"running": {}}}


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
