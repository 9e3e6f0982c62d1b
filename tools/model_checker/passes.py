"""A pass of the reconciler, whole or cut short, in the order in which the controller carries decisions out.

Status write, Events, approval removed, Jobs discarded, engine operation started in the background. Wherever the process
dies a new one starts: it has lost its watch cache and its memory, and its engine operation has ended half-way.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.model_checker.cluster import NOTHING, Cluster, Objects, Store, with_deployment, without_job
from tools.model_checker.judge import Judge, Verdict
from tools.model_checker.plan import Plan, next_writes
from tools.model_checker.properties import pass_violation
from tools.model_checker.state import State
from tools.model_checker.step import Step


def restarted(state: State) -> State:
    """Return the state after the process died and another one started."""
    return state._replace(
        known=False, seen=None, operation=None, broken=False, scoring=state.scoring._replace(run=None)
    )


def whole_pass(judge: Judge, state: State) -> Step:
    """Make one pass that nothing disturbs."""
    return next(passes(judge, state))


def passes(judge: Judge, state: State) -> Iterator[Step]:
    """Yield the passes that can be made in a state: the whole one, then those that are cut short."""
    verdict = judge.verdict(state, _remaining(state))
    if _is_outdated(state, verdict):
        yield Step("pass finds that Pods are gone which it still sees", _noticed(judge, state))
        return
    written = _written(judge, state, verdict)
    violation = pass_violation(judge, state, verdict)
    told = _told(written, verdict)
    done = _act(told, verdict)
    yield Step("pass", done, violation=violation)
    if verdict.status != state.status:
        yield Step("pass dies right after the status write", restarted(written), disturbs=True)
        # Not knowing what it wrote, the process tells what it finds the next time.
        unanswered = written._replace(known=False)
        yield Step("pass does not learn that its status write held", unanswered, disturbs=True)
    if done != told:
        yield Step("pass dies after its Events, before it acts", restarted(told), disturbs=True)


def _is_outdated(state: State, verdict: Verdict) -> bool:
    """Whether traffic would move to Pods that are gone, which a look at the API server itself shows."""
    if verdict.rests_on is None:
        return False
    revision, count = verdict.rests_on
    seen, live = (cluster.revisions[revision].ready for cluster in (state.view, state.cluster))
    return seen >= count > live


def _remaining(state: State) -> Cluster:
    """Return what a pass sees without what the operation in flight is about to delete, as the controller does."""
    view, operation = state.view, state.operation
    if operation is None:
        return view
    keeps = {each.revision: each for each in operation.revisions}
    for index, objects in enumerate(view.revisions):
        kept = keeps.get(index)
        if kept is None and objects != NOTHING:
            view = view.with_revision(index, Objects(store=Store.TERMINATING))
        elif kept is not None and not kept.serve:
            view = view.with_revision(index, with_deployment(objects, exists=False))
    return view


def _noticed(judge: Judge, state: State) -> State:
    """Return the state when the process has looked at the DecisionModel: a recent promotion is told again."""
    owed = state.owed and (state.known or not judge.retells(state.status))
    return state._replace(known=True, owed=owed)


def _written(judge: Judge, state: State, verdict: Verdict) -> State:
    """Return the state as it is right after the status write."""
    state = _recorded(state, verdict)._replace(lost=state.lost and not _is_recognised(judge, state, verdict))
    if verdict.promotes is None:
        return _noticed(judge, state)._replace(status=verdict.status)
    proved = state.proved | {verdict.promotes}
    return _aged(state)._replace(status=verdict.status, known=True, owed=True, proved=proved)


def _is_recognised(judge: Judge, state: State, verdict: Verdict) -> bool:
    """Whether a status that was lost says again what serves, and no operation from before moves the traffic yet."""
    service = state.cluster.service
    return state.operation is None and (service is None or service in judge.known(verdict.status).selectable)


def _recorded(state: State, verdict: Verdict) -> State:
    """Return the state in which the claims that the status names as filled are known to be those."""
    for index in verdict.names:
        live = state.cluster.revisions[index]
        # What was seen may be another claim than the one that is there by now.
        if live.store is not Store.ABSENT and (state.seen is None or live.filled):
            state = state._replace(cluster=state.cluster.with_revision(index, live._replace(recorded=True)))
        if state.seen is not None:
            seen = state.seen.revisions[index]._replace(recorded=True)
            state = state._replace(seen=state.seen.with_revision(index, seen))
    return state


def _aged(state: State) -> State:
    """Return the state in which every store, live and seen, is older than the last promotion."""
    return state._replace(cluster=_older(state.cluster), seen=None if state.seen is None else _older(state.seen))


def _older(cluster: Cluster) -> Cluster:
    return cluster._replace(revisions=tuple(each._replace(renewed=False) for each in cluster.revisions))


def _told(state: State, verdict: Verdict) -> State:
    return state._replace(owed=False) if verdict.tells else state


def _act(state: State, verdict: Verdict) -> State:
    if verdict.consumes_approval:
        state = state._replace(spec=state.spec._replace(approval=""))
    state = state._replace(scoring=state.scoring.asked_for(verdict.scores))
    # What is compared with the plan was gathered before Jobs were discarded.
    differs = verdict.plan is not None and bool(next_writes(verdict.plan, state.view))
    state = state._replace(cluster=_without_jobs(state.cluster, verdict.discards))
    if state.operation is not None or verdict.plan is None or not differs:
        return state
    return settled(state._replace(operation=verdict.plan), verdict.plan)


def settled(state: State, plan: Plan) -> State:
    """Return the state, with the operation ended if there is nothing left to write."""
    return state if next_writes(plan, state.cluster) else state._replace(operation=None, broken=False)


def _without_jobs(cluster: Cluster, discards: tuple[tuple[int, int], ...]) -> Cluster:
    for index, uid in discards:
        objects = cluster.revisions[index]
        if objects.job_uid == uid:
            cluster = cluster.with_revision(index, without_job(objects))
    return cluster
