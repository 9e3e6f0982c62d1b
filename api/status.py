"""What the platform answers about a DecisionModel (spec section 1.3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from api.base import ApiModel, Timestamp
from api.conditions import Condition, Phase
from api.resources import ResourceRequirements
from api.rollout import Strategy

Count = Annotated[int, Field(ge=0)]


class RevisionStatus(ApiModel):
    """The identity of one revision, as recorded when it was resolved."""

    hash: str
    """The revision's name: the first 16 hex digits of its identity's SHA-256."""
    engine: str = ""
    """The runtime."""
    model: str = ""
    """The model as the spec spelt it."""
    digest: str = ""
    """SHA-256 of the model's manifest, in bare hex."""
    device: str = ""
    """What the model runs on."""
    image: str = ""
    """The runtime's full image reference."""
    runtime_version: str = ""
    """The runtime's release; empty when spec.image was used."""
    image_pinned: bool | None = None
    """False when an image without a digest was admitted; otherwise unset."""
    resources: ResourceRequirements = ResourceRequirements()
    """The resources as the spec gave them."""
    precision: str = ""
    """The weights' precision as the runtime reports it; informational."""
    placement: str = ""
    """A hash of spec.scheduling, or none."""
    pods: str = ""
    """A hash of spec.pods; empty where nothing is set in it."""
    registry: str = ""
    """The registry's base URL when the revision was resolved."""
    verified_store: str = ""
    """UID of the claim that a prefetch Job was seen to have filled; no other claim is known to hold the model."""


class FailedRevisionStatus(RevisionStatus):
    """A rejected revision and why it was rejected."""

    reason: str = ""
    """Why, in one word."""
    message: str = ""
    """Why, for a person."""
    failed_at: Timestamp | None = None
    """When."""


class PreviousRevision(ApiModel):
    """The revision that served before, kept while its successor is watched."""

    hash: str
    """The previous revision's name."""
    promoted_at: Timestamp
    """When its successor was promoted."""
    revision: RevisionStatus
    """The previous revision."""
    strategy: Strategy | None = None
    """The strategy of the rollout that replaced it."""
    proved_replicas: Count = 0
    """How many Pods of its successor have been model-ready at once, at most; 0 in records of earlier versions."""


class RecreateRollback(ApiModel):
    """A rollback of a Recreate rollout in progress: the old revision has to be started again."""

    failed: RevisionStatus
    """The revision that is being removed."""
    target: RevisionStatus
    """The revision that is being restored."""
    started_at: Timestamp
    """When the rollback began."""


class StoreRecovery(ApiModel):
    """Attempts to refill the serving revision's lost store."""

    attempts: Count = 0
    """How many have failed."""
    last_failed_job: str = ""
    """UID of the Job that failed last, so that each is counted once."""
    exhausted: bool = False
    """Whether the platform has given up until it is told to retry."""


class ReplicaStatus(ApiModel):
    """How many Pods serve the stable revision."""

    desired: Count
    """How many should."""
    model_ready: Count
    """How many do, with the model proved to be loaded."""
    current: Count = 0
    """How many there are, whether ready or not."""


class EvaluationResult(StrEnum):
    """How an evaluation ended."""

    PASSED = "Passed"
    FAILED = "Failed"
    UNDECIDED = "Undecided"
    """Only with `statistics`: the data set is too small to tell."""


class QuestionScore(ApiModel):
    """The score of one question of the data set."""

    id: Annotated[str, Field(max_length=63)]
    """The question's id."""
    cases: Count
    """How often it was asked."""
    accuracy: str
    """Its accuracy."""
    macro_f1: Annotated[str, Field(alias="macroF1")] = ""
    """Its macro-averaged F1, where it can be classified."""


class EvaluationStatus(ApiModel):
    """The last evaluation; fractions are texts with four decimals."""

    revision: str
    """The revision that was scored."""
    accuracy: str = ""
    """Correct answers over all questions."""
    baseline_accuracy: str = ""
    """The serving revision's accuracy on the same data set."""
    cases: Count = 0
    """How many cases were used."""
    failed_cases: Count = 0
    """How many of them had a missing or unusable answer."""
    calibrated_cases: Count = 0
    """How many answers count towards calibration."""
    ece: str = ""
    """Expected calibration error."""
    brier: str = ""
    """Brier score."""
    baseline_ece: str = ""
    """The serving revision's calibration error."""
    macro_f1: Annotated[str, Field(alias="macroF1")] = ""
    """Macro-averaged F1."""
    baseline_macro_f1: Annotated[str, Field(alias="baselineMacroF1")] = ""
    """The serving revision's macro-averaged F1."""
    classifiable_cases: Count = 0
    """How many answers count towards F1."""
    min_accuracy: str = ""
    """The gate that applied."""
    max_accuracy_drop: str = ""
    """The gate that applied."""
    max_ece: str = ""
    """The gate that applied."""
    max_ece_increase: str = ""
    """The gate that applied."""
    min_macro_f1: Annotated[str, Field(alias="minMacroF1")] = ""
    """The gate that applied."""
    max_macro_f1_drop: Annotated[str, Field(alias="maxMacroF1Drop")] = ""
    """The gate that applied."""
    questions: Annotated[tuple[QuestionScore, ...], Field(max_length=20)] = ()
    """Scores by question, the first 20."""
    truncated: bool = False
    """Whether there were more questions than are listed."""
    result: EvaluationResult | None = None
    """How it ended."""
    reason: str = ""
    """The gate that was violated, or what was left out."""
    policy_hash: str = ""
    """Identifies the gates and the data set's reference."""
    scorer_version: Count = 0
    """Identifies the way scores are computed."""
    dataset_digest: str = ""
    """Identifies the data set's bytes."""
    approval_id: str = ""
    """What the promote annotation must say to approve this revision under this policy and data set."""
    completed_at: Timestamp | None = None
    """When it ended."""


class DecisionModelStatus(ApiModel):
    """The state of the model as last observed."""

    phase: Phase | None = None
    """Where the rollout stands."""
    phase_transition_time: Timestamp | None = None
    """When the phase last changed; deadlines count from here."""
    last_promotion_time: Timestamp | None = None
    """When the serving revision last changed by promotion."""
    observed_generation: Count = 0
    """The generation of the spec that was last processed."""
    endpoint: str = ""
    """Where clients send their questions."""
    stable_revision: RevisionStatus | None = None
    """The revision that serves."""
    candidate_revision: RevisionStatus | None = None
    """The revision that is being rolled out."""
    failed_revision: FailedRevisionStatus | None = None
    """The revision that was rejected last, while the spec still asks for it."""
    previous_revision: PreviousRevision | None = None
    """The revision that served before, while the current one is watched."""
    stable_stopped_for_revision: str = ""
    """The candidate for which the serving revision was stopped (strategy Recreate)."""
    recreate_rollback: RecreateRollback | None = None
    """A rollback of a Recreate rollout in progress."""
    last_retry_token: str = ""
    """The retry annotation's value that was acted on last."""
    last_approval: str = ""
    """The promote annotation's value that was consumed last: put back, it approves nothing and is left where it is."""
    store_recovery: StoreRecovery | None = None
    """Attempts to refill a lost store."""
    replicas: ReplicaStatus | None = None
    """How many Pods serve."""
    selector: Annotated[str, Field(max_length=512)] = ""
    """The labels of the Pods that are counted, as a selector; for autoscalers."""
    evaluation: EvaluationStatus | None = None
    """The last evaluation."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """The state in detail, one entry for each aspect."""
