"""One pass over one DecisionModel: gather, decide, persist, announce, act. In that order, and never waiting for work.

Status first, then the stack: a revision that the Service selects is always one that the status knows, and what a
rejected revision leaves behind goes only after the rejection is persisted. Events and counters follow a status write
that held, so nothing is told that did not happen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from api.decisionmodel import DecisionModel
from api.keys import PREFETCHED_ANNOTATION, PROMOTE_ANNOTATION
from api.status import DecisionModelStatus, RevisionStatus
from components import names
from components.desired import JsonObject, Owner
from reconciler.controller.adoption import Adopter
from reconciler.controller.budget import RolloutBudget
from reconciler.controller.confirmation import are_there
from reconciler.controller.declarations import Declarations, Unreadable, oversize_child, told
from reconciler.controller.evaluations import Evaluations
from reconciler.controller.evidence import EvidenceKeeper
from reconciler.controller.gathering import Gathered, Gatherer
from reconciler.controller.growth import StoreGrower
from reconciler.controller.line_metrics import Line
from reconciler.controller.merge_patch import difference
from reconciler.controller.metrics import ControllerMetrics
from reconciler.controller.notices import NoticeReader
from reconciler.controller.observation import api_key_of, claim_of, lingering_jobs, named, serving_pods
from reconciler.controller.probing import GateChange, Prober, Target
from reconciler.controller.rendering import Surroundings, desired_stack, owner_of
from reconciler.controller.resolution import Resolver
from reconciler.controller.revisions import known_digest, known_hashes
from reconciler.controller.seeds import Seeds
from reconciler.controller.settings import ControllerSettings
from reconciler.controller.stacks import StackConverger
from reconciler.controller.watched import CLAIMS, DECISION_MODELS, JOBS, Watched
from reconciler.engine.gate import ExpectedModel
from reconciler.engine.names import ModelName
from reconciler.engine.runtime import WARM_UP_SECONDS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, Invalid, KubernetesError, NotFound
from reconciler.kernel.events import EventRecorder, ObjectReference
from reconciler.kernel.resources import KubernetesObject, ObjectKey, object_uid
from reconciler.rollout import Decision, EventNote, Facts, Resolved, decide
from reconciler.rollout.promotion import recent_promotion

CONFLICT_SECONDS = 1.0
"""Pause after somebody else changed the object first."""

UNCONFIRMED_SECONDS = 5.0
"""Until what the watch cache does not show yet is asked for again; it usually shows it before, which brings a pass."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaborators:
    """What carries decisions out, each with one job."""

    client: KubernetesClient
    watched: Watched
    gatherer: Gatherer
    adopter: Adopter
    resolver: Resolver
    prober: Prober
    stacks: StackConverger
    seeds: Seeds
    evaluations: Evaluations
    evidence: EvidenceKeeper
    notices: NoticeReader
    grower: StoreGrower
    events: EventRecorder
    metrics: ControllerMetrics


@dataclass(slots=True)
class _Known:
    """What this process remembers of one DecisionModel."""

    uid: str
    is_introduced: bool = False
    """Its state has been read and told."""
    is_unsure: bool = False
    """Its last status may have been written although the answer was an error."""
    is_retired: bool = False
    """It is being deleted, and nothing is done for it any more."""
    problem: Unreadable | None = None
    """Why it is left alone, as it was told."""


class Reconciler:
    """Reconciles DecisionModels, one key at a time."""

    def __init__(
        self,
        settings: ControllerSettings,
        collaborators: Collaborators,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._with = collaborators
        self._budget = RolloutBudget(settings.max_concurrent_rollouts)
        self._now = now
        self._declarations = Declarations()
        self._known: dict[ObjectKey, _Known] = {}
        """Every DecisionModel that was seen and is not gone."""

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Make one pass over `key`; return the seconds after which it wants another.

        Raises:
            KubernetesError: The API server did not answer; the work queue tries again.
        """
        obj = self._with.watched.models.get(key)
        known = self._known.get(key)
        if known is not None and (obj is None or object_uid(obj) != known.uid):
            self._forget(key, known.uid)
        if obj is None:
            return None
        known = self._known.setdefault(key, _Known(object_uid(obj)))
        if obj["metadata"].get("deletionTimestamp"):
            self._retire(key, known)
            return None
        model = self._read(key, obj)
        if isinstance(model, Unreadable):
            self._budget.leave_out(key)
            return await self._tell(key, obj, model)
        if await self._with.adopter.adopt(owner_of(model)):
            return CONFLICT_SECONDS
        gathered = await self._with.gatherer.gather(model)
        if not known.is_introduced:  # a steady model writes no status, from which its metrics would follow
            self._with.metrics.describe(key, model.status)
        is_news = known.is_unsure or not known.is_introduced
        if is_news and (promotion := recent_promotion(model.status, gathered.facts.now)):
            self._record(obj, promotion)
        known.is_introduced, known.is_unsure, known.problem = True, False, None
        return await self._pass(key, obj, model, gathered)

    def _read(self, key: ObjectKey, obj: KubernetesObject) -> DecisionModel | Unreadable:
        model = self._declarations.read(obj)
        if isinstance(model, Unreadable):
            return model
        return oversize_child(self._with.watched.oversize_children_of(key), model.metadata.uid) or model

    async def _tell(self, key: ObjectKey, obj: KubernetesObject, problem: Unreadable) -> float | None:
        """Tell why an object is left alone, once: neither it nor what serves is touched until it changes."""
        known = self._known[key]
        patch = told(obj, problem, self._now())
        if not patch or known.problem == problem:
            return None
        _log.error("%s", problem.message)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        try:
            written = await self._with.client.merge_patch(
                DECISION_MODELS,
                key.namespace,
                key.name,
                {"metadata": metadata, "status": patch},
                subresource="status",
            )
        except Conflict:
            return CONFLICT_SECONDS
        except Invalid as error:
            # Before Kubernetes 1.30 the server refuses every write to an object that it would not take today.
            _log.warning("the status cannot say it: %s", error)
        else:
            self._with.watched.models.upsert_newer(written)
        known.problem = problem
        self._record(obj, EventNote(reason=problem.event, note=problem.message))
        return None

    async def _pass(
        self, key: ObjectKey, obj: KubernetesObject, model: DecisionModel, gathered: Gathered
    ) -> float | None:
        decision = self._decide(key, gathered.facts)
        premise = decision.rests_on
        if premise is not None and not await are_there(self._with.client, model, premise):
            _log.info(
                "the watch cache is behind: Pods of revision %s, which would get traffic, are gone", premise.revision
            )
            return UNCONFIRMED_SECONDS
        await self._keep_documents(model, decision, gathered)
        try:
            await self._persist(obj, model, decision)
        except KubernetesError as error:
            # It may have been written all the same, now or by the try before: the next pass tells what it finds.
            self._known[key].is_unsure = True
            if not isinstance(error, Conflict):
                raise
            _log.info("changed meanwhile: %s", error)
            return CONFLICT_SECONDS
        self._announce(obj, model, decision)
        if decision.approval_consumed:
            await self._remove_approval(key)
        if decision.repair_manifest and decision.status.candidate_revision is not None:
            await self._with.seeds.repair(owner_of(model), decision.status.candidate_revision.hash)
        waits = [
            gathered.look_again,
            decision.requeue_after,
            *self._ask(key, model, decision),
            *self._probe(key, model, decision, gathered),
        ]
        waits.append(self._evaluate(key, model, decision, gathered))
        await self._discard_jobs(decision, gathered)
        await self._release_jobs(model, gathered)
        waits.append(await self._grow(key, decision, gathered))
        waits.append(await self._converge(model, decision, gathered))
        return min((wait for wait in waits if wait is not None), default=None)

    def _decide(self, key: ObjectKey, facts: Facts) -> Decision:
        """Decide, and decide again when the rollout that had to wait has got a slot."""
        decision = decide(facts)
        if not decision.queued or not isinstance(facts.resolution, Resolved):
            self._budget.release(key)
            return decision
        revision = facts.resolution.revision.hash
        if not self._budget.admit(key, revision, self._with.watched.models, facts.now):
            return decision
        return decide(replace(facts, admitted=True))

    async def _keep_documents(self, model: DecisionModel, decision: Decision, gathered: Gathered) -> None:
        """Write a new candidate's manifest, and drop what is kept about revisions that the status is about to lose.

        Both come before the status write: a digest is never recorded without its manifest, and a crash in between
        leaves nothing behind that no status names.
        """
        owner, manifest = owner_of(model), gathered.manifest
        before = {revision.hash for revision in _in_use(model.status)}
        after = {revision.hash for revision in _in_use(decision.status)}
        candidate = decision.status.candidate_revision
        if manifest is not None and candidate is not None and candidate.hash not in before:
            await self._with.seeds.keep(owner, candidate.hash, manifest.content)
        for revision in sorted(before - after):
            await self._with.seeds.drop(owner, revision)
        # What a rejection rests on is worth reading until the next rollout.
        for revision in sorted({*known_hashes(model.status)} - {*known_hashes(decision.status)}):
            await self._with.evidence.drop(owner, revision)

    async def _persist(self, obj: KubernetesObject, model: DecisionModel, decision: Decision) -> None:
        patch = difference(model.status.dump(), decision.status.dump())
        if not patch:
            return
        metadata = model.metadata
        written = await self._with.client.merge_patch(
            DECISION_MODELS,
            metadata.namespace,
            metadata.name,
            {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}, "status": patch},
            subresource="status",
        )
        self._with.watched.models.upsert_newer(written)
        self._with.metrics.persisted(model, decision.status, decision.results)
        if model.status.phase != decision.status.phase:
            _log.info("phase %s", decision.status.phase)

    async def _remove_approval(self, key: ObjectKey) -> None:
        """Remove the promote annotation that was read, and no newer one."""
        obj = self._with.watched.models.get(key)
        if obj is None:
            return
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"], "annotations": {PROMOTE_ANNOTATION: None}}
        try:
            await self._with.client.merge_patch(DECISION_MODELS, key.namespace, key.name, {"metadata": metadata})
        except (Conflict, NotFound) as error:
            _log.info("the approval stays until the next pass: %s", error)

    def _announce(self, obj: KubernetesObject, model: DecisionModel, decision: Decision) -> None:
        for event in decision.events:
            self._record(obj, event)
        if known_digest(model.spec, decision.status) is not None:
            self._with.resolver.forget(ObjectKey(model.metadata.namespace, model.metadata.name))

    def _record(self, obj: KubernetesObject, event: EventNote) -> None:
        _log.info("%s: %s", event.reason, event.note)
        self._with.events.record(
            ObjectReference.of(obj), event.reason.type, event.reason, event.note, occasion=event.occasion
        )

    def _ask(self, key: ObjectKey, model: DecisionModel, decision: Decision) -> tuple[float | None, ...]:
        return (self._with.resolver.ask(key, model.spec.model),) if decision.resolve else ()

    def _evaluate(self, key: ObjectKey, model: DecisionModel, decision: Decision, gathered: Gathered) -> float | None:
        if not decision.evaluate:
            self._with.evaluations.stop(key, model.metadata.uid)
            return None
        api_key = gathered.credentials.api_key
        return self._with.evaluations.run(model, gathered.children, None if api_key is None else api_key.value)

    def _probe(
        self, key: ObjectKey, model: DecisionModel, decision: Decision, gathered: Gathered
    ) -> tuple[float | None, ...]:
        self._with.prober.forget(key, {object_uid(pod) for pod in gathered.children.pods})
        records = {revision.hash: revision for revision in _in_use(decision.status)}
        targets = [self._target(key, model, records[name], gathered) for name in decision.probe if name in records]
        return tuple(self._with.prober.probe(each, _answering(model, each.revision, gathered)) for each in targets)

    def _target(self, key: ObjectKey, model: DecisionModel, revision: RevisionStatus, gathered: Gathered) -> Target:
        api_key = gathered.credentials.api_key
        timeouts = model.spec.rollout.timeouts
        registry_url = revision.registry or self._settings.registries.registry_url
        return Target(
            owner=key,
            revision=revision.hash,
            expected=ExpectedModel(
                name=revision.model,
                digest=revision.digest,
                device=revision.device,
                default_host=ModelName.parse(revision.model).registry(registry_url).host,
            ),
            api_key=None if api_key is None else api_key.value,
            warm_up_seconds=timeouts.starting_timeout.total_seconds() if timeouts.starting else WARM_UP_SECONDS,
        )

    async def _discard_jobs(self, decision: Decision, gathered: Gathered) -> None:
        """Delete Jobs that have to run again; the count of their failures is persisted already."""
        for job in gathered.children.jobs:
            if object_uid(job) not in decision.discarded_jobs:
                continue
            metadata = job["metadata"]
            _log.info("deleting Job %s, so that it runs again", metadata["name"])
            try:
                await self._with.client.delete(
                    JOBS, metadata["namespace"], metadata["name"], uid=metadata["uid"], propagation="Background"
                )
            except Conflict:
                _log.info("Job %s was replaced meanwhile", metadata["name"])

    async def _release_jobs(self, model: DecisionModel, gathered: Gathered) -> None:
        """Suspend Jobs that cannot complete although their work is done: their Pods hold the store, and go.

        They are marked by the same write, and stay: deleted, they would only be made again.
        """
        for job in lingering_jobs(gathered.children, model.metadata.uid):
            metadata = job["metadata"]
            _log.info("suspending Job %s: its own container is done, and another one runs on", metadata["name"])
            release = {"metadata": {"annotations": {PREFETCHED_ANNOTATION: "true"}}, "spec": {"suspend": True}}
            try:
                await self._with.client.merge_patch(JOBS, metadata["namespace"], metadata["name"], release)
            except (Conflict, NotFound) as error:
                _log.info("Job %s is looked at again: %s", metadata["name"], error)

    async def _grow(self, key: ObjectKey, decision: Decision, gathered: Gathered) -> float | None:
        """Let a store grow; a refusal is reported by the next pass, at once."""
        growth = decision.growth
        if growth is None:
            return None
        claim = claim_of(gathered.children, key.name, gathered.facts.model.metadata.uid, growth.revision)
        refused = claim is not None and await self._with.grower.grow(claim, growth.size)
        return 0.0 if refused else None

    async def _converge(self, model: DecisionModel, decision: Decision, gathered: Gathered) -> float | None:
        if decision.stack is None:
            return None
        surroundings = Surroundings(
            settings=self._settings,
            children=gathered.children,
            seeded=await self._seeded(model, decision, gathered),
            api_key=gathered.credentials.api_key,
            key_refused=gathered.credentials.api_key_refusal is not None,
            token_refused=gathered.credentials.token_refusal is not None,
        )
        desired = desired_stack(model, decision.stack, surroundings)
        return self._with.stacks.converge(model, desired, gathered.children)

    async def _seeded(self, model: DecisionModel, decision: Decision, gathered: Gathered) -> frozenset[str]:
        """Return the revisions whose Job is about to be created and whose manifest is kept."""
        owner = owner_of(model)
        planned = decision.stack.revisions if decision.stack else ()
        new = [
            plan.revision.hash
            for plan in planned
            if plan.prefetch
            and named(gathered.children.jobs, names.prefetch_job(owner.name, plan.revision.hash), owner.uid) is None
        ]
        return frozenset([revision for revision in new if await self._with.seeds.exists(owner, revision)])

    def _retire(self, key: ObjectKey, known: _Known) -> None:
        """End what runs for a DecisionModel that is being deleted: somebody's finalizer may keep it for ever."""
        if known.is_retired:
            return
        _log.info("the DecisionModel is being deleted: its work ends, and its rollout slot is free")
        known.is_retired = True
        self._end_work(key, known.uid)
        self._with.stacks.stop(key)

    def _end_work(self, key: ObjectKey, uid: str) -> None:
        self._with.resolver.forget(key)
        self._with.prober.forget(key, ())
        self._with.notices.forget(key)
        self._budget.release(key)
        self._with.evaluations.forget(key, uid)

    def _forget(self, key: ObjectKey, uid: str) -> None:
        _log.info("the DecisionModel is gone; its stack is dropped")
        del self._known[key]
        self._end_work(key, uid)
        self._declarations.forget(key)
        self._with.metrics.forget(key)
        self._with.seeds.forget(uid)
        self._with.adopter.forget(key)
        self._with.grower.forget_others({object_uid(claim) for claim in self._with.watched.children[CLAIMS]})
        self._with.stacks.forget(key, uid)

    def line(self, now: datetime) -> Line:
        """Return who rolls out, and who waits for a slot."""
        return self._budget.line(self._with.watched.models, now)

    def owners(self) -> list[Owner]:
        """Return the owners that exist right now, as the watch cache knows them."""
        return [
            Owner(namespace=obj["metadata"]["namespace"], name=obj["metadata"]["name"], uid=object_uid(obj))
            for obj in self._with.watched.models
        ]

    def gate_changed(self, change: GateChange) -> None:
        """Count and announce a gate that was opened or closed."""
        self._with.metrics.probed(change.owner, change.result)
        obj = self._with.watched.models.get(change.owner)
        if obj is not None and change.event is not None:
            note = f"Pod {change.pod}: {change.verdict.reason}: {change.verdict.message}"
            self._record(obj, EventNote(reason=change.event, note=note))


def _answering(model: DecisionModel, revision: str, gathered: Gathered) -> tuple[JsonObject, ...]:
    """Return the Pods of a revision that can be asked.

    Those that want a key which cannot be had teach nothing, and must not lose their gate to a missing Secret.
    """
    pods = serving_pods(gathered.children, model.metadata.uid, revision)
    refused = gathered.credentials.api_key_refusal is not None
    return tuple(pod for pod in pods if not refused or api_key_of(pod["spec"]) is None)


def _in_use(status: DecisionModelStatus) -> list[RevisionStatus]:
    revisions = [status.stable_revision, status.candidate_revision]
    revisions.append(status.previous_revision.revision if status.previous_revision else None)
    if status.recreate_rollback is not None:
        revisions += [status.recreate_rollback.failed, status.recreate_rollback.target]
    return [revision for revision in revisions if revision is not None]
