"""Which revision a spec asks for, and why the platform may refuse it: pure functions (spec sections 2.3, 3.1, 5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.spec import DecisionModelSpec
from api.status import DecisionModelStatus, RevisionStatus
from components import names
from components.identity import (
    NO_PLACEMENT,
    RevisionIdentity,
    is_legacy_record,
    placement_hash,
    pods_hash,
    revision_hash,
    same_identity,
)
from components.manifests import unschedulable
from reconciler.controller.observation import Past
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.errors import (
    InvalidModelName,
    InvalidRuntimeVersion,
    RegistryNotAllowed,
    RuntimeVersionUnsupported,
)
from reconciler.engine.images import ServingRuntime, choose_version, runtime_image, update_available
from reconciler.engine.names import ModelName
from reconciler.engine.registry_policy import check_allowed
from reconciler.rollout import Refusal, Resolved, RuntimeUpdate, retry
from reconciler.rollout.facts import Resolution
from reconciler.rollout.retention import identity_of, known_revisions


def preflight(spec: DecisionModelSpec, settings: ControllerSettings) -> Refusal | None:
    """Return why the spec must not be acted on at all; checked before any network call."""
    try:
        check_allowed(ModelName.parse(spec.model), settings.registries)
    except InvalidModelName as error:
        return Refusal(reason=Reason.INVALID_MODEL_NAME, message=str(error))
    except RegistryNotAllowed as error:
        return Refusal(reason=Reason.REGISTRY_NOT_ALLOWED, message=str(error))
    if spec.image and not settings.allow_image_override:
        message = "spec.image needs the operator flag --allow-image-override; remove it or ask for the flag"
        return Refusal(reason=Reason.IMAGE_OVERRIDE_NOT_ALLOWED, message=message)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenImage:
    """The image a revision runs, and what is wrong with it, if anything."""

    reference: str
    version: str = ""
    pinned: bool = True
    refusal: Refusal | None = None


def choose_image(
    spec: DecisionModelSpec, stable: RevisionStatus | None, settings: ControllerSettings
) -> ChosenImage | Refusal:
    """Return the image the spec asks for, or why no image can be chosen."""
    if spec.image:
        return ChosenImage(reference=spec.image)
    serving = None if stable is None else ServingRuntime(version=stable.runtime_version, image=stable.image)
    try:
        version = choose_version(
            spec.runtime_version,
            policy=settings.runtime_version_policy,
            stable=serving,
            default=settings.default_version,
        )
    except InvalidRuntimeVersion as error:
        return Refusal(reason=Reason.INVALID_RUNTIME_VERSION, message=str(error))
    except RuntimeVersionUnsupported as error:
        return Refusal(reason=Reason.RUNTIME_VERSION_UNSUPPORTED, message=str(error))
    image = runtime_image(version, spec.device)
    return ChosenImage(
        reference=image.reference,
        version=str(version),
        pinned=image.pinned,
        refusal=None if image.pinned or settings.allow_unpinned_images else _unpinned(image.reference),
    )


def image_refusals(
    image: ChosenImage | Refusal, resolution: Resolution, stable: RevisionStatus | None
) -> tuple[Refusal, ...]:
    """Return what is wrong with the image. What serves was admitted once: no stricter flag takes it back."""
    if isinstance(image, Refusal):
        return (image,)
    serves = isinstance(resolution, Resolved) and stable is not None and resolution.revision.hash == stable.hash
    return () if image.refusal is None or serves else (image.refusal,)


def placement_refusals(
    spec: DecisionModelSpec, resolution: Resolution, stable: RevisionStatus | None
) -> tuple[Refusal, ...]:
    """Return why not all replicas of a new revision can ever run; what serves keeps the terms that it started with."""
    if not isinstance(resolution, Resolved) or (stable is not None and resolution.revision.hash == stable.hash):
        return ()
    affinity = None if spec.scheduling.affinity is None else spec.scheduling.affinity.dump()
    obstacle = unschedulable(spec.replicas, spec.cache.effective_access_modes, affinity)
    return (Refusal(reason=Reason.CACHE_NOT_SHAREABLE, message=obstacle),) if obstacle else ()


def _unpinned(reference: str) -> Refusal:
    message = (
        f"{reference} is not pinned to a digest; choose a pinned spec.runtimeVersion"
        " or run the operator with --allow-unpinned-runtime-images"
    )
    return Refusal(reason=Reason.UNPINNED_RUNTIME_IMAGE, message=message)


def known_digest(spec: DecisionModelSpec, status: DecisionModelStatus) -> str | None:
    """Return the digest that needs no registry: pinned, or recorded for the same spelling of the model."""
    if spec.digest is not None:
        return spec.digest
    for recorded in (status.stable_revision, status.candidate_revision):
        if recorded is not None and recorded.model == spec.model:
            return recorded.digest
    return None


def known_resolution(
    model: DecisionModel, service_selects: str | None, image: ChosenImage, settings: ControllerSettings
) -> Resolved | None:
    """Return what the spec resolves to, None when only the registry can tell.

    A spec that still asks for the revision that was rejected resolves to that: otherwise a tag that moved upstream
    would start a rollout that nobody asked for. Any other edit, and the retry annotation, ask the registry anew.
    """
    spec, status = model.spec, model.status
    digest = known_digest(spec, status)
    if digest is not None:
        return resolved(spec, status, digest, image, settings)
    failed = status.failed_revision
    if failed is None or failed.model != spec.model or retry.is_due(model, service_selects):
        return None
    again = resolved(spec, status, failed.digest, image, settings)
    return again if again.revision.hash == failed.hash else None


def wanted_revision(
    spec: DecisionModelSpec, digest: str, image: ChosenImage, settings: ControllerSettings
) -> RevisionStatus:
    """Return the record of the revision that the spec asks for."""
    record = RevisionStatus(
        hash="",
        engine=spec.engine,
        model=spec.model,
        digest=digest,
        device=spec.device,
        image=image.reference,
        runtime_version=image.version,
        image_pinned=None if image.pinned else False,
        resources=spec.resources,
        placement=placement_hash(spec.scheduling.dump()) or NO_PLACEMENT,
        pods=pods_hash(spec.pods.dump()),
        registry=settings.registries.registry_url,
    )
    return record.model_copy(update={"hash": revision_hash(identity(record))})


def identity(record: RevisionStatus) -> RevisionIdentity:
    """Return what makes the recorded revision the revision it is."""
    return RevisionIdentity(
        engine=record.engine,
        model=record.model,
        digest=record.digest,
        device=record.device,
        image=record.image,
        resources=record.resources.dump(),
        placement=record.placement,
        pods=record.pods,
        custom_image=not record.runtime_version,
    )


def recognise(wanted: RevisionStatus, status: DecisionModelStatus) -> RevisionStatus:
    """Return the recorded revision that already is what is wanted, else `wanted` itself.

    A stable that an earlier version recorded comes back completed, under the hash that it has (spec section 3.1).
    """
    stable = status.stable_revision
    if stable is not None and is_legacy_record(stable.hash, stable.placement, identity(wanted)):
        return _completed(stable, wanted)
    return next((record for record in _records(status) if same_identity(identity(record), identity(wanted))), wanted)


def _completed(legacy: RevisionStatus, wanted: RevisionStatus) -> RevisionStatus:
    return legacy.model_copy(
        update={
            "placement": wanted.placement,
            "resources": wanted.resources,
            "image": legacy.image or wanted.image,
            # Without it the image would count as the user's own, and pinning its tag as another image.
            "runtime_version": legacy.runtime_version or wanted.runtime_version,
        }
    )


def _records(status: DecisionModelStatus) -> Iterable[RevisionStatus]:
    if status.stable_revision is not None:
        yield status.stable_revision
    if status.candidate_revision is not None:
        yield status.candidate_revision
    if status.failed_revision is not None:
        yield identity_of(status.failed_revision)


def resolved(
    spec: DecisionModelSpec, status: DecisionModelStatus, digest: str, image: ChosenImage, settings: ControllerSettings
) -> Resolved:
    """Return what the spec resolves to once its digest and image are known."""
    return Resolved(revision=recognise(wanted_revision(spec, digest, image, settings), status))


def proved_before(status: DecisionModelStatus, revision: str) -> datetime | None:
    """Return the last promotion for a revision that serves, served, or failed; None for any other.

    What has proved itself did so before that moment; on the store of what failed without serving nothing depends.
    """
    records = (status.stable_revision, status.previous_revision, status.failed_revision)
    known = {record.hash for record in records if record is not None}
    return status.last_promotion_time if revision in known else None


def past_of(status: DecisionModelStatus, revision: str) -> Past:
    """Return what a status records about a revision that its objects cannot tell."""
    recorded = next((each for each in known_revisions(status) if each.hash == revision), None)
    return Past(
        proved_before=proved_before(status, revision),
        verified_store="" if recorded is None else recorded.verified_store,
    )


def hashes_of_interest(status: DecisionModelStatus, resolution: Resolution, selected: str | None) -> frozenset[str]:
    """Return the hashes of all revisions that a pass has to look at; what is selected may be anybody's text."""
    wanted = (resolution.revision.hash,) if isinstance(resolution, Resolved) else ()
    serving = (selected,) if selected is not None and names.is_revision(selected) else ()
    return frozenset((*known_hashes(status), *wanted, *serving))


def known_hashes(status: DecisionModelStatus) -> Iterable[str]:
    """Yield the hashes of all revisions that a status mentions."""
    return (revision.hash for revision in known_revisions(status))


def runtime_update(stable: RevisionStatus | None, settings: ControllerSettings) -> RuntimeUpdate | None:
    """Return the runtime release that the stable revision could move to (spec section 5.13)."""
    if stable is None:
        return None
    running = ServingRuntime(version=stable.runtime_version, image=stable.image).known_version
    if running is None or not update_available(running, settings.default_version):
        return None
    return RuntimeUpdate(running=str(running), available=str(settings.default_version))
