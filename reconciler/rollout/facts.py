"""What one pass knows about one DecisionModel: everything `decide` may look at.

The controller fills these values from the watch cache and from finished background work. Absence is a fact too:
a resolution of `None` means that the registry was not asked yet, or has not answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.status import EvaluationStatus, RevisionStatus
from components.desired import is_shareable
from reconciler.rollout.obstacle import Obstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the platform will not act on the spec as it stands."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The spec resolves to `revision`: tag to digest, version to image, everything to a hash."""

    revision: RevisionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TagMissing:
    """The registry has no such tag."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionFailed:
    """The registry gave no usable answer; the question is asked again with back-off."""

    message: str


Resolution = Resolved | TagMissing | ResolutionFailed | None


class StoreState(StrEnum):
    """Whether a revision's PersistentVolumeClaim can be used."""

    ABSENT = "absent"
    PRESENT = "present"
    RECOVERING = "recovering"
    """Created again after a loss, whether marked as such or not, and not known to be filled."""
    TERMINATING = "terminating"


class PrefetchState(StrEnum):
    """How far a revision's prefetch Job has come."""

    ABSENT = "absent"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchFacts:
    """The prefetch Job of one revision; `failure` and `detail` only when it failed (spec section 4.3)."""

    state: PrefetchState = PrefetchState.ABSENT
    uid: str = ""
    stale: bool = False
    """It is older than the store: what it did, it did to another one."""
    expired: bool = False
    """It ended by its own deadline. To a candidate it counts as running: only the caching deadline ends that, and a Job
    that was given an earlier one runs again."""
    failure: str = ""
    detail: str = ""
    permanent: bool = False
    obstacle: Obstacle | None = None
    """What keeps it from running, or from ending."""

    @property
    def has_filled_the_store(self) -> bool:
        """Whether it has put the model into the store that is there now."""
        return self.state is PrefetchState.COMPLETE and not self.stale


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFacts:
    """The serving Deployment of one revision and what its Pods report."""

    exists: bool = False
    pods: int = 0
    """Pods of the Deployment that run or can, those that are terminating included."""
    current: int = 0
    """The same without those that are terminating."""
    model_ready: int = 0
    """Pods whose gate is True and which the kubelet calls Ready, both as read from the API server."""
    rolling: bool = False
    """The Deployment is replacing Pods, so a shortage is expected."""
    progress_deadline_exceeded: bool = False
    away: int = 0
    """Pods that are missing or not judged yet, and of which nothing is known that speaks against the revision: others
    took them away, they wait for a node, or they start."""
    held_up: bool = False
    """Pods find no node, or may not be created: why a Deployment gets no further, whatever it runs."""
    mismatched_gates: tuple[Reason, ...] = ()
    """Gate reasons that prove wrong bytes or a wrong device on some Pod."""
    crash_looping: bool = False
    precision: str = ""
    """What the runtime reports about the weights; informational."""
    obstacle: Obstacle | None = None
    """What keeps Pods from being made, started or ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """What a revision's claim was given."""

    size: str
    access_modes: tuple[str, ...]
    uid: str = ""
    storage_class_name: str | None = None
    growth_refused: str = ""
    """Why the API server does not let it grow to the size that the spec asks for."""

    @property
    def shareable(self) -> bool:
        """Whether Pods on several nodes can mount the store at once."""
        return is_shareable(self.access_modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFacts:
    """What exists in the cluster for one revision."""

    store: StoreState = StoreState.ABSENT
    claim: ClaimFacts | None = None
    verified: bool = False
    """It is recorded that a Job has filled this very claim: what becomes of the Job says nothing more."""
    prefetch: PrefetchFacts = PrefetchFacts()
    serving: ServingFacts = ServingFacts()

    @property
    def filled(self) -> bool:
        """Whether the store is known to hold the model."""
        return self.verified or self.prefetch.has_filled_the_store


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeUpdate:
    """The runtime the stable revision runs is older than the operator's default (spec section 5.13)."""

    running: str
    available: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFacts:
    """What is known about scoring the candidate under the policy and on the data set of right now (spec section 7)."""

    policy_hash: str = ""
    dataset_digest: str = ""
    """Empty when the data set cannot be read."""
    obstacle: Refusal | None = None
    """Why it cannot be scored yet: the data set, or a serving revision that gives no baseline."""
    hopeless: bool = False
    """Waiting does not help: the data set is malformed."""
    outcome: EvaluationStatus | None = None
    """The scores and the verdict."""
    trouble: str = ""
    """Why the last run could not be ended; it is repeated."""
    uncompared: str = ""
    """Why the candidate is compared with nothing although it should be: what serves does not, and has not for long."""
    waits: bool = False
    """The run has no slot yet: other namespaces' runs, or more of this one's, have them."""
    begun_at: datetime | None = None
    """When this process first had a slot for it; None before, or when nothing is to be run."""
    by_deprecated_label: bool = False
    """The data set's Secret carries only the label that once opened every Secret."""

    def obstructed(self, obstacle: Refusal, *, hopeless: bool = False) -> EvaluationFacts:
        """Return these facts with what stands in the way."""
        return replace(self, obstacle=obstacle, hopeless=hopeless)

    def troubled(self, trouble: str) -> EvaluationFacts:
        """Return these facts with why the last run could not be ended."""
        return replace(self, trouble=trouble)

    def compared_with_nothing(self, why: str) -> EvaluationFacts:
        """Return these facts with why nothing is compared."""
        return replace(self, uncompared=why)

    def concluded(self, outcome: EvaluationStatus) -> EvaluationFacts:
        """Return these facts with how the evaluation ended."""
        return replace(self, outcome=outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """A revision that the Service selects and has a Deployment of ours, and that the status does not name."""

    record: RevisionStatus | None
    """Its record as the live objects prove it; None where they do not."""


class ManifestState(StrEnum):
    """The ConfigMap that keeps the manifest a candidate's tag was resolved to (spec section 4.2)."""

    SOUND = "sound"
    """It holds the digest's bytes, or none is needed."""
    REPAIRABLE = "repairable"
    """It is ours and broken or gone, and the verified bytes are at hand."""
    LOST = "lost"
    """It is ours and broken or gone, and nobody has the bytes any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything one pass knows.

    `preflight` holds the security refusals of spec section 5.4 step 7, `refusals` those of steps 9, 10, 14 and 15 in
    that order. `conflict` describes a foreign object under one of our names. `revisions` is keyed by revision hash
    and need not hold an entry for a revision of which nothing exists.
    """

    now: datetime
    model: DecisionModel
    preflight: Refusal | None = None
    resolution: Resolution = None
    refusals: tuple[Refusal, ...] = ()
    api_key_refusal: Refusal | None = None
    """Also among `refusals`: no Deployment is made anew with the reference to the API key."""
    token_refusal: Refusal | None = None
    """Also among `refusals`: no Job is made anew with the reference to the download token."""
    conflict: str | None = None
    revisions: Mapping[str, RevisionFacts] = field(default_factory=dict)
    service_selects: str | None = None
    switching_to: str | None = None
    """The revision that an operation under way is about to have selected, if there is one."""
    unrecorded: Unrecorded | None = None
    """What the Service selects, if the status does not name it."""
    evaluation: EvaluationFacts | None = None
    """None without `spec.rollout.evaluation`, or without a candidate that could be scored."""
    manifest: ManifestState = ManifestState.SOUND
    runtime_update: RuntimeUpdate | None = None
    rollout_limit: int = 0
    """How many rollouts may be under way at once; 0 for any number."""
    admitted: bool = False
    """A slot for the rollout is reserved."""
    stack_failure: str | None = None
    """Why the stack is not as decided: the last operation failed, or does not last."""
    stack_busy: bool = False
    """An operation on the stack is under way."""

    @property
    def is_new_spec(self) -> bool:
        """Whether this is the first pass that looks at the spec as it is."""
        return self.model.status.observed_generation < self.model.metadata.generation

    @property
    def stack_trouble(self) -> str:
        """The stack's failure in a sentence; empty without one."""
        return f"the stack could not be converged: {self.stack_failure}" if self.stack_failure else ""

    def of(self, revision: RevisionStatus) -> RevisionFacts:
        """Return what exists for `revision`; empty facts when nothing does."""
        return self.revisions.get(revision.hash, RevisionFacts())
