"""Gathers the facts of one pass: from the watch cache, from Secrets read by name, and from finished background work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from api.decisionmodel import DecisionModel
from components import names
from components.desired import DesiredStack
from reconciler.controller.credentials import Credentials, read_credentials
from reconciler.controller.evaluation_subject import SCORED_PHASES
from reconciler.controller.evaluations import Evaluations
from reconciler.controller.growth import StoreGrower
from reconciler.controller.lost_records import is_unrecorded, unrecorded
from reconciler.controller.notices import NoticeReader
from reconciler.controller.observation import (
    Children,
    claim_of,
    conditions_of,
    is_seeded,
    is_true,
    named,
    revision_facts,
    selected_revision,
    uid_of,
)
from reconciler.controller.obstacles import Notices, obstructed, silent_objects
from reconciler.controller.policy import policy_refusals
from reconciler.controller.probing import Prober
from reconciler.controller.rendering import owner_of
from reconciler.controller.resolution import Resolver
from reconciler.controller.revisions import (
    ChosenImage,
    choose_image,
    hashes_of_interest,
    image_refusals,
    known_resolution,
    past_of,
    placement_refusals,
    preflight,
    resolved,
    runtime_update,
)
from reconciler.controller.seeds import Seeds
from reconciler.controller.settings import ControllerSettings
from reconciler.controller.stacks import StackConverger
from reconciler.controller.watched import Watched
from reconciler.engine.registry import ResolvedManifest
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.resources import ObjectKey
from reconciler.rollout import (
    EvaluationFacts,
    Facts,
    ManifestState,
    Refusal,
    RevisionFacts,
    ServingFacts,
    StoreState,
    Unrecorded,
)
from reconciler.rollout.facts import Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The facts, and what carrying the decision out needs besides."""

    facts: Facts
    children: Children
    credentials: Credentials
    manifest: ResolvedManifest | None = None
    """The manifest's bytes, when the registry has just sent them."""
    look_again: float | None = None
    """In how many seconds there may be more to know, though nothing that is watched changes."""


class Gatherer:
    """Fills in `Facts`. Reads only; the one thing it waits for is the API server's answer about single objects."""

    def __init__(  # noqa: PLR0913 - the sources of facts
        self,
        settings: ControllerSettings,
        client: KubernetesClient,
        watched: Watched,
        resolver: Resolver,
        prober: Prober,
        stacks: StackConverger,
        grower: StoreGrower,
        seeds: Seeds,
        evaluations: Evaluations,
        notices: NoticeReader,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._client = client
        self._watched = watched
        self._resolver = resolver
        self._prober = prober
        self._stacks = stacks
        self._grower = grower
        self._seeds = seeds
        self._evaluations = evaluations
        self._notices = notices
        self._now = now

    async def gather(self, model: DecisionModel) -> Gathered:
        """Gather everything one pass over `model` may know.

        Raises:
            KubernetesError: The API server did not answer; nothing can be decided then.
        """
        key = ObjectKey(model.metadata.namespace, model.metadata.name)
        children = self._watched.children_of(key)
        refusal = preflight(model.spec, self._settings)
        image = choose_image(model.spec, model.status.stable_revision, self._settings)
        selected = selected_revision(children, model.metadata.name, model.metadata.uid)
        resolution, manifest = (None, None) if refusal else self._resolve(key, model, selected, image)
        credentials = await read_credentials(self._client, model)
        read = await self._notices.read(key, silent_objects(children, model.metadata.uid))
        facts = Facts(
            now=self._now().replace(microsecond=0),
            model=model,
            preflight=refusal,
            resolution=resolution,
            refusals=(
                *image_refusals(image, resolution, model.status.stable_revision),
                *credentials.refusals,
                *placement_refusals(model.spec, resolution, model.status.stable_revision),
                *policy_refusals(model, resolution, children, self._settings),
            ),
            api_key_refusal=credentials.api_key_refusal,
            token_refusal=credentials.token_refusal,
            conflict=await self._conflict(model, children),
            revisions=self._revisions(model, children, resolution, selected, read.notices),
            service_selects=selected,
            switching_to=None if (coming := self._stacks.declared(model)) is None else coming.selected,
            unrecorded=await self._unrecorded(model, children, selected, resolution),
            evaluation=await self._evaluation(model),
            manifest=await self._manifest(model, children),
            runtime_update=runtime_update(model.status.stable_revision, self._settings),
            rollout_limit=self._settings.max_concurrent_rollouts,
            stack_failure=self._stacks.failure(model),
            stack_busy=self._stacks.is_busy(model),
        )
        return Gathered(
            facts=facts, children=children, credentials=credentials, manifest=manifest, look_again=read.look_again
        )

    def _resolve(
        self, key: ObjectKey, model: DecisionModel, selected: str | None, image: ChosenImage | Refusal
    ) -> tuple[Resolution, ResolvedManifest | None]:
        if isinstance(image, Refusal):
            return None, None
        if known := known_resolution(model, selected, image, self._settings):
            return known, None
        answer = self._resolver.answer(key, model.spec.model)
        if not isinstance(answer, ResolvedManifest):
            return answer, None
        return resolved(model.spec, model.status, answer.digest, image, self._settings), answer

    def _revisions(
        self,
        model: DecisionModel,
        children: Children,
        resolution: Resolution,
        selected: str | None,
        notices: Notices,
    ) -> dict[str, RevisionFacts]:
        hashes = hashes_of_interest(model.status, resolution, selected)
        return {name: self._revision(children, model, name, notices) for name in hashes}

    async def _unrecorded(
        self, model: DecisionModel, children: Children, selected: str | None, resolution: Resolution
    ) -> Unrecorded | None:
        """Look for the record of what serves where the status has none."""
        if selected is None or not is_unrecorded(model, children, selected):
            return None
        digest = await self._seeds.digest(owner_of(model), selected)
        return unrecorded(model, children, selected, digest, resolution)

    def _revision(self, children: Children, model: DecisionModel, name: str, notices: Notices) -> RevisionFacts:
        owner, owner_uid = model.metadata.name, model.metadata.uid
        observed = revision_facts(children, owner, owner_uid, name, past_of(model.status, name))
        observed = obstructed(observed, children, owner, owner_uid, name, notices)
        facts = remaining(observed, self._stacks.declared(model), name)
        claim = claim_of(children, owner, owner_uid, name)
        if claim is not None and facts.claim is not None:
            refused = self._grower.refusal(uid_of(claim), str(model.spec.cache.size))
            facts = replace(facts, claim=replace(facts.claim, growth_refused=refused))
        precision = self._prober.precision(ObjectKey(model.metadata.namespace, owner), name)
        return replace(facts, serving=replace(facts.serving, precision=precision)) if precision else facts

    async def _evaluation(self, model: DecisionModel) -> EvaluationFacts | None:
        """Look at the data set from when the candidate starts; before that it may still change for nothing."""
        return await self._evaluations.facts(model) if model.status.phase in SCORED_PHASES else None

    async def _manifest(self, model: DecisionModel, children: Children) -> ManifestState:
        """Look at the candidate's manifest for as long as its prefetch Job depends on it."""
        candidate, owner = model.status.candidate_revision, owner_of(model)
        if candidate is None:
            return ManifestState.SOUND
        job = named(children.jobs, names.prefetch_job(owner.name, candidate.hash), owner.uid)
        if job is None or is_true(conditions_of(job), "Complete"):
            return ManifestState.SOUND
        if not is_seeded(job, names.manifest_config_map(owner.name, candidate.hash)):
            return ManifestState.SOUND
        return await self._seeds.state(owner, candidate.hash, candidate.digest)

    async def _conflict(self, model: DecisionModel, children: Children) -> str | None:
        """Return the foreign object that blocks the stack, if there is one.

        A candidate must not be promoted when the Service's name turns out to be another's, so it is looked up before.
        """
        if conflict := await self._stacks.conflict(model):
            return conflict
        if model.status.candidate_revision is None or children.services:
            return None
        return await self._stacks.foreign_service(model)


def remaining(facts: RevisionFacts, declared: DesiredStack | None, revision: str) -> RevisionFacts:
    """Return the facts without what an operation in flight is about to delete, though it may still be seen.

    It must be gone before it can come again: a promotion that relied on it would move traffic to nothing.
    """
    if declared is None or facts == RevisionFacts():
        return facts
    kept = next((each for each in declared.revisions if each.hash == revision), None)
    if kept is None:
        return RevisionFacts(store=StoreState.TERMINATING)
    return facts if kept.serving is not None else replace(facts, serving=ServingFacts())
