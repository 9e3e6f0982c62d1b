"""What must hold in every state and of every step (spec sections 5.4, 5.6, 5.8)."""

from __future__ import annotations

from api.conditions import Phase
from tools.model_checker.cluster import AGAINST_THE_REVISION, Store
from tools.model_checker.judge import Judge, Verdict
from tools.model_checker.plan import Plan, PlannedRevision, Write
from tools.model_checker.scenario import NAMES, REVISIONS
from tools.model_checker.scoring import approval_of, has_passed
from tools.model_checker.serving import serving_facts
from tools.model_checker.slot import Slot
from tools.model_checker.state import State
from tools.model_checker.violation import Property, Violation


def state_violation(judge: Judge, state: State) -> Violation | None:
    """Return how the state breaks a property: traffic is on a proved revision that the status names."""
    service = state.cluster.service
    if service is None:
        return None
    if state.lost:
        return None
    if service not in judge.known(state.status).selectable:
        return Violation(
            Property.TRAFFIC, f"the Service selects {NAMES[service]}, which the persisted status does not know"
        )
    if service not in state.proved:
        return Violation(Property.TRAFFIC, f"the Service selects {NAMES[service]}, which never proved itself")
    return None


def pass_violation(judge: Judge, state: State, verdict: Verdict) -> Violation | None:
    """Return how a decision breaks a property: promotions need proof, are told once, and what is selected is kept."""
    promoted = verdict.promotes
    if promoted is not None and not state.cluster.revisions[promoted].proved:
        return Violation(Property.PROOF, f"{NAMES[promoted]} is promoted although not all its Pods were ever ready")
    if promoted is not None and (gap := _gate_violation(judge, state, verdict, promoted)):
        return gap
    if _begins(judge, state, verdict) and state.slot is Slot.TAKEN:
        return Violation(Property.SLOT, "a rollout begins although another DecisionModel has the only slot")
    if blamed := _blame_violation(state, verdict):
        return blamed
    if verdict.tells != (promoted is not None):
        return Violation(
            Property.TELLING, f"{verdict.tells} Events for {int(promoted is not None)} promotions in one pass"
        )
    return None if verdict.plan is None else _plan_violation(judge, state, verdict, verdict.plan)


def _blame_violation(state: State, verdict: Verdict) -> Violation | None:
    """Return what a revision is taken back for that is no fault of it, as far as can be seen."""
    condemned = verdict.condemns
    if condemned is None or state.view.revisions[condemned].pods in AGAINST_THE_REVISION:
        return None
    return Violation(Property.BLAME, f"{NAMES[condemned]} is taken back although nothing speaks against it")


def _waiting_violation(judge: Judge, state: State, verdict: Verdict, plan: Plan) -> Violation | None:
    """Return which candidate waits for room that there is already, as far as can be seen."""
    status, known = judge.status(verdict.status), judge.known(verdict.status)
    candidate, stable = known.candidate, known.stable
    if candidate is None or stable is None or status.phase is not Phase.STARTING:
        return None
    starts = any(each.serve for each in plan.revisions if each.revision == candidate)
    if starts or state.view.revisions[stable].has_pods:
        return None
    return Violation(Property.ROOM, f"{NAMES[candidate]} waits for Pods of {NAMES[stable]}, of which none runs")


def _room_violation(state: State, plan: Plan) -> Violation | None:
    """Return whose Pods a plan starts although it stops others that are still there, as far as can be seen."""
    view = state.view.revisions
    starting = [each for each in plan.revisions if each.serve and not each.stopped and not view[each.revision].has_pods]
    stopping = [each for each in plan.revisions if each.stopped and view[each.revision].has_pods]
    if not starting or not stopping:
        return None
    started, stopped = NAMES[starting[0].revision], NAMES[stopping[0].revision]
    return Violation(Property.ROOM, f"Pods of {started} are started before those of {stopped} are gone")


def _gate_violation(judge: Judge, state: State, verdict: Verdict, promoted: int) -> Violation | None:
    """Return what a promotion did without that the spec asks for."""
    spec, scoring, name = state.spec, state.scoring, NAMES[promoted]
    revision = REVISIONS[promoted].hash
    if spec.evaluated and not has_passed(judge.status(verdict.status), revision, scoring.dataset):
        return Violation(
            Property.SCORING, f"{name} is promoted, which has not passed on the {scoring.dataset} data set"
        )
    if not spec.manual or judge.known(state.status).stable is None:
        return None
    if spec.approval == (approval_of(revision, scoring.dataset) if spec.evaluated else revision):
        return None
    return Violation(Property.APPROVAL, f"{name} is promoted, which nobody approved as it was measured")


def _begins(judge: Judge, state: State, verdict: Verdict) -> bool:
    """Whether a rollout begins: one that follows another, or comes in the window after it, has its slot."""
    before, after = judge.known(state.status), judge.known(verdict.status)
    is_new = after.candidate is not None and after.candidate != before.candidate
    return is_new and not judge.holds_a_slot(state.status, state.spec)


def _plan_violation(judge: Judge, state: State, verdict: Verdict, plan: Plan) -> Violation | None:
    found = _store_violation(state, plan) or _torn_down(judge, state, verdict, plan)
    if found := found or _room_violation(state, plan) or _waiting_violation(judge, state, verdict, plan):
        return found
    planned = {each.revision for each in plan.revisions}
    selected = state.view.service
    if selected is not None and selected not in planned:
        return Violation(Property.SELECTED, f"the plan drops {NAMES[selected]}, which the live Service selects")
    stable = judge.known(verdict.status).stable
    if stable is not None and stable not in planned:
        return Violation(Property.STABLE, f"the plan drops the stable {NAMES[stable]}")
    return None


def _store_violation(state: State, plan: Plan) -> Violation | None:
    for each in plan.revisions:
        objects = state.view.revisions[each.revision]
        if each.serve and not objects.deployment and not objects.filled:
            return Violation(Property.STORE, f"Pods of {NAMES[each.revision]} are started on a store without files")
        if _waits_in_vain(state, each):
            return Violation(Property.STORE, f"Pods of {NAMES[each.revision]} may mount the store before it is filled")
    return None


def _waits_in_vain(state: State, planned: PlannedRevision) -> bool:
    """Whether Pods are wanted, of which none answers, although the store is empty."""
    objects = state.view.revisions[planned.revision]
    empty = not objects.filled and objects.store is not Store.TERMINATING
    return empty and planned.serve and not planned.stopped and not serving_facts(objects).model_ready


def _torn_down(judge: Judge, state: State, verdict: Verdict, plan: Plan) -> Violation | None:
    """Return which candidate loses its Pods, or is cached again, although it goes on and its store is filled."""
    candidate = judge.known(state.status).candidate
    if candidate is None or judge.known(verdict.status).candidate != candidate:
        return None
    objects = state.view.revisions[candidate]
    if not objects.filled or objects.store is not Store.PRESENT or not serving_facts(objects).model_ready:
        return None
    # What an operation under way removes is gone already.
    if _serves(plan, candidate) or (state.operation is not None and not _serves(state.operation, candidate)):
        return None
    return Violation(Property.CANDIDATE, f"the Pods of {NAMES[candidate]} go, which its filled store has proved")


def _serves(plan: Plan, revision: int) -> bool:
    return any(each.revision == revision and each.serve for each in plan.revisions)


def write_violation(judge: Judge, state: State, write: Write) -> Violation | None:
    """Return how a write of the engine breaks a property: nothing goes that is selected or that serves."""
    if write.switches:
        return _switch_violation(state, write)
    return None if write.deletes is None else _deletion_violation(judge, state, *write.deletes)


def _deletion_violation(judge: Judge, state: State, what: str, index: int) -> Violation | None:
    if what == "Job":
        return None
    if state.cluster.service == index:
        return Violation(
            Property.SELECTED, f"the {what} of {NAMES[index]} is deleted while the live Service selects it"
        )
    if judge.known(state.status).stable == index:
        return Violation(Property.STABLE, f"the {what} of {NAMES[index]} is deleted while it is the persisted stable")
    return None


def _switch_violation(state: State, write: Write) -> Violation | None:
    before, after = state.cluster.service, write.cluster.service
    if before is None or after is None or write.cluster.revisions[after].deployment:
        return None
    return Violation(
        Property.TRAFFIC, f"the Service is switched from {NAMES[before]} to {NAMES[after]}, which has no Deployment"
    )
