"""The policy rules in the loop: a revision that breaks a mandatory one is never applied (see `policy`).

They judge the whole rendered revision before anything of it exists: the engine itself would stop at the first offending
object, after it had applied others.
"""

from __future__ import annotations

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.keys import API_VERSION, KIND
from api.status import RevisionStatus
from components.desired import JsonObject
from components.manifests import render
from policy import blocking, check
from reconciler.controller.observation import Children
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.settings import ControllerSettings
from reconciler.rollout import Refusal, Resolved, RevisionPlan, StackPlan
from reconciler.rollout.facts import Resolution


def policy_refusals(
    model: DecisionModel, resolution: Resolution, children: Children, settings: ControllerSettings
) -> tuple[Refusal, ...]:
    """Return why a revision that does not serve yet must not be rolled out; what serves was admitted once."""
    if settings.policy is None or not isinstance(resolution, Resolved):
        return ()
    stable, wanted = model.status.stable_revision, resolution.revision
    if stable is not None and stable.hash == wanted.hash:
        return ()
    findings = blocking(check(_manifests(model, wanted, children, settings), settings.policy))
    if not findings:
        return ()
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    message = f"{findings[0]}{more}; nothing of this revision is applied"
    return (Refusal(reason=Reason.POLICY_VIOLATION, message=message),)


def _manifests(
    model: DecisionModel, wanted: RevisionStatus, children: Children, settings: ControllerSettings
) -> tuple[JsonObject, ...]:
    """Return the DecisionModel and everything that would be applied once the revision serves."""
    metadata = {"name": model.metadata.name, "namespace": model.metadata.namespace}
    declared = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": model.spec.dump()}
    plan = RevisionPlan(revision=wanted, serve=True, disruption_budget=model.spec.replicas > 1)
    around = Surroundings(settings=settings, children=children)
    desired = desired_stack(model, StackPlan(revisions=(plan,), selected=wanted.hash), around)
    return (declared, *(manifest.object for manifest in render(desired)))
