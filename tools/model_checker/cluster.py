"""The abstract cluster: each revision's store, prefetch Job, Deployment and Pods, and what the Service selects."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

REPLICAS = 2
"""Two, so that one ready Pod is not yet all of them."""
MANY_REPLICAS = 6
"""After scaling up: so many that those of before are less than half."""


class Store(IntEnum):
    """A revision's claim."""

    ABSENT = auto()
    PRESENT = auto()
    RECOVERING = auto()
    TERMINATING = auto()


class Job(IntEnum):
    """A revision's prefetch Job."""

    ABSENT = auto()
    RUNNING = auto()
    COMPLETE = auto()
    FAILED = auto()
    FAILED_FOR_GOOD = auto()
    EXPIRED = auto()


class Pods(IntEnum):
    """The Pods of a revision's Deployment."""

    NONE = auto()
    ONE_READY = auto()
    AS_BEFORE = auto()
    """As many are ready as before it was scaled up."""
    ALL_READY = auto()
    CRASHING = auto()
    MISMATCHED = auto()
    UNPROVED = auto()
    """They run, and have lost their proof."""


AGAINST_THE_REVISION = (Pods.CRASHING, Pods.MISMATCHED, Pods.UNPROVED)
"""How Pods are that speak against what they run."""


class Objects(NamedTuple):
    """What exists of one revision.

    `filled` says that the store holds the model; `renewed` that it is younger than the last promotion; `recorded` that
    it is this very claim that the status names as filled, if it names one;
    `job_uid` alternates between Jobs that follow each other; `stale` says that the Job is older than the store;
    `stopped` that the Deployment wants no Pods; `proved` that all Pods of this very Deployment were ready since it last
    wanted some; `many` that it was scaled up; `ended` that a Pod of it was evicted, of which the object stays.
    """

    store: Store = Store.ABSENT
    filled: bool = False
    renewed: bool = False
    recorded: bool = False
    job: Job = Job.ABSENT
    job_uid: int = 0
    stale: bool = False
    deployment: bool = False
    stopped: bool = False
    pods: Pods = Pods.NONE
    proved: bool = False
    many: bool = False
    ended: bool = False

    @property
    def wanted(self) -> int:
        """How many Pods the Deployment wants unless it is stopped."""
        return MANY_REPLICAS if self.many else REPLICAS

    @property
    def ready(self) -> int:
        """How many Pods are model-ready."""
        return {Pods.ONE_READY: 1, Pods.AS_BEFORE: REPLICAS, Pods.ALL_READY: self.wanted}.get(self.pods, 0)

    @property
    def has_pods(self) -> bool:
        """Whether there are Pods, ready or not: a Deployment that wants some has them at once."""
        return self.deployment and (not self.stopped or self.pods is not Pods.NONE)

    @property
    def mounted(self) -> bool:
        """Whether something holds the claim."""
        return self.has_pods or self.job is Job.RUNNING


NOTHING = Objects()


class Cluster(NamedTuple):
    """All objects of one DecisionModel; `revisions` in the order of `scenario.REVISIONS`, `service` an index in it."""

    revisions: tuple[Objects, ...]
    service: int | None = None

    def with_revision(self, index: int, objects: Objects) -> Cluster:
        """Return the cluster with other objects of one revision; of what is gone entirely nothing is remembered."""
        if objects.store is Store.ABSENT and objects.job is Job.ABSENT and not objects.deployment:
            objects = NOTHING
        return self._replace(revisions=(*self.revisions[:index], objects, *self.revisions[index + 1 :]))


def with_store(objects: Objects, store: Store) -> Objects:
    """Return the objects after an empty store was created."""
    stale = objects.job is not Job.ABSENT
    return objects._replace(store=store, filled=False, renewed=True, recorded=False, stale=stale)


def without_store(objects: Objects) -> Objects:
    """Return the objects after the store is gone."""
    return objects._replace(store=Store.ABSENT, filled=False, recorded=False)


def with_job(objects: Objects) -> Objects:
    """Return the objects after a prefetch Job was created."""
    return objects._replace(job=Job.RUNNING, job_uid=1 - objects.job_uid, stale=False)


def without_job(objects: Objects) -> Objects:
    """Return the objects after the Job was deleted."""
    return objects._replace(job=Job.ABSENT, stale=False)


def with_pods(objects: Objects, pods: Pods) -> Objects:
    """Return the objects after the Pods changed."""
    return objects._replace(pods=pods, proved=objects.proved or pods is Pods.ALL_READY)


def with_deployment(objects: Objects, *, exists: bool, stopped: bool = False, many: bool = False) -> Objects:
    """Return the objects after the Deployment was created or deleted, which leaves no Pod of it."""
    return objects._replace(deployment=exists, stopped=stopped, pods=Pods.NONE, proved=False, many=many, ended=False)


def scaled(objects: Objects, *, stopped: bool) -> Objects:
    """Return the objects after the Deployment was told to have no Pods, or all; those that end take a while."""
    return objects._replace(stopped=stopped, proved=False)


def scaled_up(objects: Objects) -> Objects:
    """Return the objects after the Deployment was told to have more Pods: those that it has go on."""
    pods = Pods.AS_BEFORE if objects.pods is Pods.ALL_READY else objects.pods
    return objects._replace(many=True, pods=pods, proved=False)


def evicted(objects: Objects) -> Objects:
    """Return the objects after a ready Pod was evicted: its object stays, and another one starts in its place."""
    left = Pods.NONE if objects.ready == 1 else Pods.ONE_READY
    return objects._replace(pods=left, ended=True)
