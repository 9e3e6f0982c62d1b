"""From a plan to a desired stack: pure functions over the plan, the live objects and the operator's settings.

What already runs keeps what it was given: placement, resources, registry and storage come from the live objects, so
that neither another version of the platform nor an edit meant for the next revision rolls what serves (spec 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.decisionmodel import DecisionModel
from api.keys import API_KEY_CHECKSUM_ANNOTATION, REVISION_RECORD_ANNOTATION
from api.rollout import Strategy
from api.status import RevisionStatus
from components import names
from components.desired import (
    DesiredRevision,
    DesiredStack,
    JsonObject,
    Owner,
    Placement,
    Prefetch,
    SecretKey,
    Serving,
    Store,
    is_shareable,
)
from components.freeze import freeze_serving, freeze_store, freeze_template
from components.identity import NO_PLACEMENT, placement_hash
from components.manifests import co_location_for
from reconciler.controller.credentials import ApiKey
from reconciler.controller.lost_records import annotation_of
from reconciler.controller.observation import (
    Children,
    any_serves,
    api_key_of,
    claim_of,
    ignores_disruptions,
    is_seeded,
    named,
    terminating,
    uses_shared_store,
)
from reconciler.controller.pod_settings import is_lost, pod_extras
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.api_key import KeyChecksums, next_checksums
from reconciler.engine.images import RuntimeVersion
from reconciler.engine.workload import RevisionRecipe, prefetch
from reconciler.engine.workload import serving as serving_of
from reconciler.rollout import RevisionPlan, StackPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What rendering needs besides the plan and the DecisionModel.

    `seeded` names the revisions whose manifest ConfigMap exists; `api_key` is None without a key, or when it cannot be
    read (what runs then keeps the checksum it has). With `key_refused` that is because no key can be had: then what
    runs keeps its reference as well, for Pods that refer to a missing Secret do not start (spec section 8.3). Nothing
    is made anew with a reference that was refused, whatever the plan says: neither a Deployment with the API key nor,
    with `token_refused`, a Job with the download token.
    """

    settings: ControllerSettings
    children: Children
    seeded: frozenset[str] = field(default_factory=frozenset)
    api_key: ApiKey | None = None
    key_refused: bool = False
    token_refused: bool = False


def owner_of(model: DecisionModel) -> Owner:
    """Return the owner that every object of the model's stack refers to."""
    return Owner(namespace=model.metadata.namespace, name=model.metadata.name, uid=model.metadata.uid)


def desired_stack(model: DecisionModel, plan: StackPlan, around: Surroundings) -> DesiredStack:
    """Return what the stack should contain for `plan`."""
    owner = owner_of(model)
    revisions = tuple(_revision(model, owner, each, around) for each in plan.revisions)
    return DesiredStack(owner=owner, revisions=revisions, selected=plan.selected)


def _revision(model: DecisionModel, owner: Owner, plan: RevisionPlan, around: Surroundings) -> DesiredRevision:
    name = plan.revision.hash
    claim = claim_of(around.children, owner.name, owner.uid, name)
    shared = uses_shared_store(around.children, owner.name, owner.uid, name)
    job = named(around.children.jobs, names.prefetch_job(owner.name, name), owner.uid)
    deployment = named(around.children.deployments, names.deployment(owner.name, name), owner.uid)
    recipe = _recipe(model, plan.revision, around.settings)
    store = _store(model, claim, plan, shared=shared)
    serves = plan.serve and _may_serve(deployment, around)
    serving = _serving(model, plan, recipe, deployment, claim, around) if serves else None
    return DesiredRevision(
        hash=name,
        store=store,
        prefetch=_prefetch(model, plan, recipe, job, around) if plan.prefetch and _may_prefetch(job, around) else None,
        pods=pod_extras(model.spec, plan.revision, deployment),
        serving=replace(serving, record=_record(plan.revision, deployment)) if serving is not None else None,
        # Of Pods that share a node a drain could take one, and the other only when that one is ready again: never.
        disruption_budget=plan.disruption_budget and store.shareable,
    )


def _may_prefetch(job: JsonObject | None, around: Surroundings) -> bool:
    return job is not None or not around.token_refused


def _may_serve(deployment: JsonObject | None, around: Surroundings) -> bool:
    return deployment is not None or not around.key_refused


def _recipe(model: DecisionModel, revision: RevisionStatus, settings: ControllerSettings) -> RevisionRecipe:
    spec = model.spec
    api_key, token = spec.auth.api_key_secret_ref, spec.cache.download_token_secret_ref
    return RevisionRecipe(
        hash=revision.hash,
        model=revision.model,
        digest=revision.digest,
        device=revision.device,
        image=revision.image,
        custom_image=not revision.runtime_version,
        runtime_version=RuntimeVersion.parse(revision.runtime_version) if revision.runtime_version else None,
        resources=revision.resources.dump(),
        placement=_placement(model, revision),
        registry_url=revision.registry or settings.registries.registry_url,
        registry_recorded=bool(revision.registry),
        hf_endpoint=settings.hf_endpoint,
        api_key=None if api_key is None else SecretKey(name=api_key.name, key=api_key.key),
        prefetch_resources=spec.cache.prefetch.resources.dump(),
        download_token=None if token is None else SecretKey(name=token.name, key=token.key),
    )


def _placement(model: DecisionModel, revision: RevisionStatus) -> Placement:
    """Return the spec's placement if it is the revision's; only a hash of it is recorded.

    A revision with another placement has a live Deployment, from which it is taken.
    """
    scheduling = model.spec.scheduling
    if revision.placement != (placement_hash(scheduling.dump()) or NO_PLACEMENT):
        return Placement()
    return Placement(
        node_selector=scheduling.node_selector,
        tolerations=tuple(toleration.dump() for toleration in scheduling.tolerations),
        affinity=None if scheduling.affinity is None else scheduling.affinity.dump(),
        runtime_class_name=scheduling.runtime_class_name,
    )


def _store(model: DecisionModel, claim: JsonObject | None, plan: RevisionPlan, *, shared: bool) -> Store:
    cache = model.spec.cache
    wanted = Store(
        size=str(cache.size),
        access_modes=cache.effective_access_modes,
        storage_class_name=cache.storage_class_name,
        recovering=plan.recovering,
        withheld=plan.withheld,
        shared=shared,
    )
    if claim is None:
        return wanted
    # The stack never changes a claim: a refused growth would block everything else in it (see `growth`).
    return replace(freeze_store(wanted, claim), size=str(claim["spec"]["resources"]["requests"]["storage"]))


def _prefetch(
    model: DecisionModel, plan: RevisionPlan, recipe: RevisionRecipe, job: JsonObject | None, around: Surroundings
) -> Prefetch:
    deadline = int(model.spec.rollout.timeouts.caching_timeout.total_seconds())
    seeded = recipe.hash in around.seeded
    if around.token_refused:
        # The Job that is there keeps its own spec; one that goes in this moment must not come back with the token.
        recipe = replace(recipe, download_token=None)
    if job is not None:
        # A Job is what it was when it was created.
        deadline = job["spec"].get("activeDeadlineSeconds", deadline)
        seeded = is_seeded(job, names.manifest_config_map(model.metadata.name, recipe.hash))
    rendered = prefetch(
        recipe,
        deadline_seconds=deadline,
        seeded=seeded,
        proxy=around.settings.proxy,
        **_place(model, plan, recipe, around.children),
    )
    return rendered if job is None else replace(rendered, ignores_disruptions=ignores_disruptions(job))


def _place(model: DecisionModel, plan: RevisionPlan, recipe: RevisionRecipe, children: Children) -> dict[str, Any]:
    """Return where a Job has to go that may decide where its revision can run: see `prefetch`.

    Where the Pods that hold the GPU will give way to the revision, asking for another one could only end in waiting.
    """
    if recipe.device != "cuda" or is_shareable(model.spec.cache.effective_access_modes):
        return {}
    gives_way = plan.recovering or model.spec.rollout.strategy is Strategy.RECREATE
    if gives_way and any_serves(children, model.metadata.uid):
        return {"beside": names.model_labels(model.metadata.name)}
    return {"reserves_device": True}


def _serving(  # noqa: PLR0913 - what is asked for, and what is there
    model: DecisionModel,
    plan: RevisionPlan,
    recipe: RevisionRecipe,
    deployment: JsonObject | None,
    claim: JsonObject | None,
    around: Surroundings,
) -> Serving:
    if around.key_refused and deployment is not None:
        recipe = replace(recipe, api_key=api_key_of(deployment["spec"]["template"]["spec"]))
    checksums = KeyChecksums()
    if recipe.api_key is not None:
        recorded = _recorded_checksums(deployment)
        key = around.api_key
        checksums = next_checksums(
            recorded,
            current=None if key is None else key.checksum,
            legacy=None if key is None else key.legacy_checksum,
        )
    wanted = serving_of(
        recipe,
        replicas=0 if plan.stopped else model.spec.replicas,
        api_key_checksum=checksums.deployment,
        template_api_key_checksum=checksums.template,
    )
    if deployment is None:
        return replace(wanted, co_location=co_location_for(model.spec.replicas))
    frozen = freeze_serving(wanted, deployment, registry_recorded=recipe.registry_recorded)
    if names.is_legacy(recipe.hash) or is_lost(model.spec, plan.revision, deployment):
        # What version 0.3 rendered is not known in every detail, and none of it is a reason to restart what serves.
        return freeze_template(frozen, deployment, api_key_checksum=checksums.template)
    return freeze_template(frozen, deployment) if claim is not None and terminating(claim) else frozen


def _record(revision: RevisionStatus, deployment: JsonObject | None) -> str | None:
    """Return the record for the revision's Deployment; one that an earlier version made without is left as it is."""
    if deployment is None or REVISION_RECORD_ANNOTATION in (deployment["metadata"].get("annotations") or {}):
        return annotation_of(revision)
    return None


def _recorded_checksums(deployment: JsonObject | None) -> KeyChecksums | None:
    if deployment is None:
        return None
    return KeyChecksums(
        deployment=_checksum_in(deployment["metadata"]),
        template=_checksum_in(deployment["spec"]["template"].get("metadata") or {}),
    )


def _checksum_in(metadata: Mapping[str, JsonObject]) -> str | None:
    value = (metadata.get("annotations") or {}).get(API_KEY_CHECKSUM_ANNOTATION)
    return None if value is None else str(value)
