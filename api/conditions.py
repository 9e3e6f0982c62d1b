"""The vocabulary of a DecisionModel's status, and the arithmetic of its conditions (spec sections 5.1 and 9).

Phases, condition types, reasons and Event reasons are closed sets: users alert on them, so adding one is a change of
the API. The functions are pure; the clock is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from api.base import ApiModel, Timestamp


class Phase(StrEnum):
    """Where a DecisionModel stands (spec section 5.1)."""

    PENDING = "Pending"
    RESOLVING = "Resolving"
    CACHING = "Caching"
    STARTING = "Starting"
    EVALUATING = "Evaluating"
    AWAITING_PROMOTION = "AwaitingPromotion"
    PROMOTING = "Promoting"
    """Part of the contract, but never set: a promotion is one write."""
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"


class ConditionType(StrEnum):
    """What a condition speaks about (spec section 9.1)."""

    RESOLVED = "Resolved"
    CACHED = "Cached"
    MODEL_READY = "ModelReady"
    EVALUATED = "Evaluated"
    READY = "Ready"
    DEGRADED = "Degraded"
    PROMOTED = "Promoted"
    STABILIZING = "Stabilizing"
    RUNTIME_UPDATE_AVAILABLE = "RuntimeUpdateAvailable"
    RECONCILING = "Reconciling"
    """The platform is at what the spec asks for, or waits for something to pass (kstatus)."""
    STALLED = "Stalled"
    """The platform has given up until somebody changes something (kstatus)."""


class Reason(StrEnum):
    """Every reason a condition, a failed revision or a Pod gate can carry."""

    # Resolving the tag.
    RESOLVED = "Resolved"
    RESOLVING = "Resolving"
    MODEL_NOT_FOUND = "ModelNotFound"
    RESOLVE_FAILED = "ResolveFailed"

    # Refused before anything is asked of the cluster.
    UNKNOWN_ENGINE = "UnknownEngine"
    INVALID_MODEL_NAME = "InvalidModelName"
    REGISTRY_NOT_ALLOWED = "RegistryNotAllowed"
    IMAGE_OVERRIDE_NOT_ALLOWED = "ImageOverrideNotAllowed"
    INVALID_RUNTIME_VERSION = "InvalidRuntimeVersion"
    RUNTIME_VERSION_UNSUPPORTED = "RuntimeVersionUnsupported"
    UNPINNED_RUNTIME_IMAGE = "UnpinnedRuntimeImage"
    API_KEY_INVALID = "APIKeyInvalid"
    SECRET_NOT_ALLOWED = "SecretNotAllowed"  # noqa: S105  # a reason, no secret
    DOWNLOAD_TOKEN_INVALID = "DownloadTokenInvalid"  # noqa: S105  # a reason, no secret
    RESOURCE_CONFLICT = "ResourceConflict"
    POLICY_VIOLATION = "PolicyViolation"

    # The object itself cannot be acted upon.
    OBJECT_TOO_LARGE = "ObjectTooLarge"
    OBJECT_INVALID = "ObjectInvalid"

    # Prefetching and the store.
    CACHING = "Caching"
    CACHED = "Cached"
    PREFETCH_FAILED = "PrefetchFailed"
    CACHE_TIMEOUT = "CacheTimeout"
    CACHE_NOT_SHAREABLE = "CacheNotShareable"
    CACHE_SPEC_IMMUTABLE = "CacheSpecImmutable"
    STORE_LOST = "StoreLost"
    STORE_PREFETCH_FAILED = "StorePrefetchFailed"
    STORE_TERMINATING = "StoreTerminating"
    STACK_FAILED = "StackFailed"

    # Starting and serving.
    STARTING = "Starting"
    START_TIMEOUT = "StartTimeout"
    MODEL_READY = "ModelReady"
    REPLICAS_NOT_MODEL_READY = "ReplicasNotModelReady"
    NO_MODEL_READY_PODS = "NoModelReadyPods"
    READY = "Ready"
    RUNTIME_UPDATE_AVAILABLE = "RuntimeUpdateAvailable"

    # Between a new spec and the end of the operation that it needs.
    APPLYING = "Applying"

    # What keeps Pods or a store from coming about, in the words of the component that tells it.
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    INVALID_IMAGE_NAME = "InvalidImageName"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    CREATE_CONTAINER_ERROR = "CreateContainerError"
    RUN_CONTAINER_ERROR = "RunContainerError"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING_GATED = "SchedulingGated"
    FAILED_CREATE = "FailedCreate"
    FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox"
    FAILED_ATTACH_VOLUME = "FailedAttachVolume"
    FAILED_MOUNT = "FailedMount"
    FAILED_BINDING = "FailedBinding"
    PROVISIONING_FAILED = "ProvisioningFailed"
    SIDECAR_RUNNING = "SidecarRunning"

    # Pod gates (spec section 6.3).
    PROBE_ERROR = "ProbeError"
    DIGEST_MISMATCH = "DigestMismatch"
    DEVICE_MISMATCH = "DeviceMismatch"
    NOT_PINNED = "NotPinned"

    # Scoring on the golden data set (spec section 7).
    EVALUATION_RUNNING = "EvaluationRunning"
    EVALUATION_PASSED = "EvaluationPassed"
    EVALUATION_FAILED = "EvaluationFailed"
    EVALUATION_TIMEOUT = "EvaluationTimeout"
    EVALUATION_SKIPPED = "EvaluationSkipped"
    EVALUATION_UNDECIDED = "EvaluationUndecided"
    EVALUATION_UNSUPPORTED = "EvaluationUnsupported"
    CALIBRATION_UNAVAILABLE = "CalibrationUnavailable"
    CLASSIFICATION_UNAVAILABLE = "ClassificationUnavailable"
    BASELINE_UNAVAILABLE = "BaselineUnavailable"
    DATASET_INVALID = "DatasetInvalid"
    DATASET_NOT_FOUND = "DatasetNotFound"
    DATASET_KEY_NOT_FOUND = "DatasetKeyNotFound"
    DATASET_CHANGED = "DatasetChanged"

    # Promotion and what follows it.
    ROLLOUT_QUEUED = "RolloutQueued"
    PROMOTION_PENDING = "PromotionPending"
    PROMOTED = "Promoted"
    STABILIZING = "Stabilizing"
    STABLE_ROLLING = "StableRolling"
    SERVED_BY_PREVIOUS = "ServedByPrevious"
    WAITING_FOR_PODS = "WaitingForPods"
    POST_PROMOTION_UNHEALTHY = "PostPromotionUnhealthy"
    RECREATE_ROLLBACK_TIMEOUT = "RecreateRollbackTimeout"
    CANDIDATE_REJECTED = "CandidateRejected"
    REVISION_FAILED = "RevisionFailed"

    # A status that no longer says what serves.
    STATUS_RECOVERED = "StatusRecovered"
    STATUS_LOST = "StatusLost"


EventType = Literal["Normal", "Warning"]


class EventReason(StrEnum):
    """Every reason (and action) of an Event about a DecisionModel (spec section 9.3); `type` says how loud it is."""

    type: EventType

    def __new__(cls, reason: str, type_: EventType = "Normal") -> Self:
        """Make the member of a reason; ordinary unless it says otherwise."""
        member = str.__new__(cls, reason)
        member._value_ = reason
        member.type = type_
        return member

    RESOLVED = "Resolved"
    PREFETCH_STARTED = "PrefetchStarted"
    CACHED = "Cached"
    REVISION_STARTING = "RevisionStarting"
    PROMOTED = "Promoted"
    EVALUATION_STARTED = "EvaluationStarted"
    EVALUATION_PASSED = "EvaluationPassed"
    RUNTIME_UPDATE_AVAILABLE = "RuntimeUpdateAvailable"
    STABILIZED = "Stabilized"
    CANDIDATE_SUPERSEDED = "CandidateSuperseded"
    AWAITING_PROMOTION = "AwaitingPromotion"
    PROMOTION_APPROVED = "PromotionApproved"
    SERVING_IMAGE_APPLIED = "ServingImageApplied"
    RETRY_NOOP = "RetryNoop"
    MANIFEST_REPAIRED = "ManifestRepaired"
    REPLICAS_CO_LOCATED = "ReplicasCoLocated"
    STABLE_STOPPED = "StableStopped"
    STABLE_RESTORED = "StableRestored"

    ROLLED_BACK = "RolledBack", "Warning"
    FAILED = "Failed", "Warning"
    PROBE_MISMATCH = "ProbeMismatch", "Warning"
    EVALUATION_FAILED = "EvaluationFailed", "Warning"
    EVALUATION_ON_HOLD = "EvaluationOnHold", "Warning"
    DEPRECATED_SECRET_LABEL = "DeprecatedSecretLabel", "Warning"
    DATASET_CHANGED = "DatasetChanged", "Warning"
    RESOURCE_CONFLICT = "ResourceConflict", "Warning"
    STORE_LOST = "StoreLost", "Warning"
    STORE_PREFETCH_FAILED = "StorePrefetchFailed", "Warning"
    STORE_TERMINATING = "StoreTerminating", "Warning"
    ROLLED_BACK_AFTER_PROMOTION = "RolledBackAfterPromotion", "Warning"
    SERVED_BY_PREVIOUS = "ServedByPrevious", "Warning"
    CANDIDATE_REJECTED = "CandidateRejected", "Warning"
    DEPRECATED_APPROVAL = "DeprecatedApproval", "Warning"
    STALE_APPROVAL = "StaleApproval", "Warning"
    UNPINNED_RUNTIME_IMAGE = "UnpinnedRuntimeImage", "Warning"
    MANIFEST_INVALID = "ManifestInvalid", "Warning"
    OBJECT_TOO_LARGE = "ObjectTooLarge", "Warning"
    OBJECT_INVALID = "ObjectInvalid", "Warning"
    RECREATE_ROLLBACK_TIMEOUT = "RecreateRollbackTimeout", "Warning"
    STATUS_RECOVERED = "StatusRecovered", "Warning"
    STATUS_LOST = "StatusLost", "Warning"


ConditionStatus = Literal["True", "False", "Unknown"]

_REASON_PATTERN = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_LONGEST_MESSAGE = 32768


class Condition(ApiModel):
    """One aspect of the object's state, in the form of `metav1.Condition`."""

    # The server insists on the time; in Python it is `set_condition` that knows it.
    model_config = ConfigDict(
        json_schema_extra={"required": ["type", "status", "reason", "message", "lastTransitionTime"]}
    )

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition speaks about."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=_REASON_PATTERN)]
    """Why, in one word of a closed set."""
    message: Annotated[str, Field(json_schema_extra={"maxLength": _LONGEST_MESSAGE})]
    """Why, for a person; may be empty."""
    last_transition_time: Timestamp | None = None
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation of the spec that the condition was derived from."""


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def remove_condition(conditions: Iterable[Condition], type_: str) -> tuple[Condition, ...]:
    """Return the conditions without the one of a type."""
    return tuple(condition for condition in conditions if condition.type != type_)


def set_condition(conditions: Iterable[Condition], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions, ordered by type, with `new` in the place of the one of its type.

    `lastTransitionTime` becomes `now` only when the status flips. A message longer than the API takes is cut.
    """
    before = find_condition(conditions := tuple(conditions), new.type)
    flipped = before is None or before.status != new.status or before.last_transition_time is None
    since = now if flipped or before is None else before.last_transition_time
    settled = new.model_copy(update={"last_transition_time": since, "message": new.message[:_LONGEST_MESSAGE]})
    others = remove_condition(conditions, new.type)
    return tuple(sorted((*others, settled), key=lambda condition: condition.type))
