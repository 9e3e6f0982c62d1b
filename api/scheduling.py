"""Where Pods may run: the parts of a Pod spec that `spec.scheduling` embeds, in Kubernetes' own shape.

Written out in full rather than as free-form objects, so that a misspelt field is refused when it is applied and not
when a Pod fails to schedule.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.bounds import Listed, Mapped, Text

Weight = Annotated[int, Field(ge=1, le=100)]


class TolerationOperator(StrEnum):
    """How a toleration matches a taint."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to Pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """Lets Pods onto nodes with a matching taint (core/v1 Toleration)."""

    key: Text = ""
    """The taint's key; empty with operator Exists matches every taint."""
    operator: TolerationOperator | None = None
    """Unset means Equal."""
    value: Text = ""
    """The taint's value, for operator Equal."""
    effect: TaintEffect | None = None
    """Unset matches every effect."""
    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated; unset means for ever."""


class NodeSelectorOperator(StrEnum):
    """How a node's label or field is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeSelectorRequirement(ApiModel):
    """One comparison of a node's label or field (core/v1 NodeSelectorRequirement)."""

    key: Text
    """The label or field."""
    operator: NodeSelectorOperator
    """How it is compared."""
    values: Listed[Text] = ()
    """What it is compared with."""


class NodeSelectorTerm(ApiModel):
    """Comparisons that must all hold (core/v1 NodeSelectorTerm)."""

    match_expressions: Listed[NodeSelectorRequirement] = ()
    """Comparisons of labels."""
    match_fields: Listed[NodeSelectorRequirement] = ()
    """Comparisons of fields."""


class NodeSelector(ApiModel):
    """Terms of which one must hold (core/v1 NodeSelector)."""

    node_selector_terms: Listed[NodeSelectorTerm]
    """The terms."""


class PreferredSchedulingTerm(ApiModel):
    """A preferred kind of node (core/v1 PreferredSchedulingTerm)."""

    weight: Weight
    """How much the preference counts, 1 to 100."""
    preference: NodeSelectorTerm
    """The kind of node."""


class NodeAffinity(ApiModel):
    """Nodes that Pods are drawn to (core/v1 NodeAffinity)."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """What a node must be."""
    preferred_during_scheduling_ignored_during_execution: Listed[PreferredSchedulingTerm] = ()
    """What a node should be."""


class LabelSelectorOperator(StrEnum):
    """How a Pod's or namespace's label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(ApiModel):
    """One comparison of a label (metav1.LabelSelectorRequirement)."""

    key: Text
    """The label."""
    operator: LabelSelectorOperator
    """How it is compared."""
    values: Listed[Text] = ()
    """What it is compared with."""


class LabelSelector(ApiModel):
    """Objects by label (metav1.LabelSelector); an empty one selects all, an absent one none."""

    match_labels: Mapped[Text] = Field(default_factory=dict)
    """Labels that must be equal."""
    match_expressions: Listed[LabelSelectorRequirement] = ()
    """Comparisons that must hold."""


class PodAffinityTerm(ApiModel):
    """A set of Pods and what counts as near them (core/v1 PodAffinityTerm)."""

    topology_key: Text
    """The node label that makes nodes one place."""
    label_selector: LabelSelector | None = None
    """The Pods."""
    namespaces: Listed[Text] = ()
    """Where the Pods are; empty, and without a namespace selector, means the model's own namespace."""
    namespace_selector: LabelSelector | None = None
    """Where the Pods are, by label; an empty selector means everywhere."""
    match_label_keys: Listed[Text] = ()
    """Labels whose value is taken from the Pod that is scheduled, and must be equal."""
    mismatch_label_keys: Listed[Text] = ()
    """Labels whose value is taken from the Pod that is scheduled, and must differ."""


class WeightedPodAffinityTerm(ApiModel):
    """A preferred neighbourhood (core/v1 WeightedPodAffinityTerm)."""

    weight: Weight
    """How much the preference counts, 1 to 100."""
    pod_affinity_term: PodAffinityTerm
    """The neighbourhood."""


class PodAffinity(ApiModel):
    """Pods near which, or away from which, Pods are placed (core/v1 PodAffinity and PodAntiAffinity)."""

    required_during_scheduling_ignored_during_execution: Listed[PodAffinityTerm] = ()
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: Listed[WeightedPodAffinityTerm] = ()
    """What should hold."""


class Affinity(ApiModel):
    """Scheduling constraints beyond the node selector (core/v1 Affinity)."""

    node_affinity: NodeAffinity | None = None
    """Which nodes."""
    pod_affinity: PodAffinity | None = None
    """Near which Pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Away from which Pods."""


class Scheduling(ApiModel):
    """Where a revision's Pods may run; any change makes a new revision."""

    node_selector: Mapped[Text] = Field(default_factory=dict)
    """Labels a node must carry."""
    tolerations: Listed[Toleration] = ()
    """Taints the Pods tolerate."""
    affinity: Affinity | None = None
    """Further constraints."""
    runtime_class_name: (
        Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")] | None
    ) = None
    """The RuntimeClass of serving Pods, for example nvidia."""
