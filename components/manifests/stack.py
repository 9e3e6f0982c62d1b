"""Renders a whole desired stack, in the order in which its objects depend on each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from components.desired import DesiredRevision, DesiredStack, Owner
from components.errors import InvalidStackError
from components.manifests.deployment import serving_deployment
from components.manifests.job import prefetch_job
from components.manifests.manifest import Manifest
from components.manifests.network import pod_disruption_budget, service
from components.manifests.store import persistent_volume_claim


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionManifests:
    """The objects of one revision: store, Job, Deployment, budget, as far as they are desired."""

    hash: str
    manifests: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackManifests:
    """The objects of a stack by what they belong to."""

    owner: Owner
    revisions: tuple[RevisionManifests, ...]
    service: Manifest | None


def render(desired: DesiredStack) -> tuple[Manifest, ...]:
    """Return the stack's objects, each after what it depends on.

    Raises:
        InvalidStackError: The stack contradicts itself.
        InvalidNameError: The model's name or a revision's hash is none.
    """
    rendered = render_stack(desired)
    of_revisions = (manifest for revision in rendered.revisions for manifest in revision.manifests)
    return (*of_revisions, *([rendered.service] if rendered.service else []))


def render_stack(desired: DesiredStack) -> StackManifests:
    """Return what `render` returns, grouped. Raises as that does."""
    _check(desired)
    # By hash: in which order the caller lists revisions says nothing about the stack.
    ordered = sorted(desired.revisions, key=lambda revision: revision.hash)
    revisions = tuple(_render_revision(desired.owner, revision) for revision in ordered)
    selected = [revision for revision in revisions if revision.hash == desired.selected]
    services = [service(desired.owner, each.hash, tuple(item.key for item in each.manifests)) for each in selected]
    return StackManifests(owner=desired.owner, revisions=revisions, service=services[0] if services else None)


def _render_revision(owner: Owner, revision: DesiredRevision) -> RevisionManifests:
    store = persistent_volume_claim(owner, revision)
    manifests = [] if revision.store.withheld else [store]
    if revision.prefetch:
        manifests.append(prefetch_job(owner, revision, revision.prefetch, store.key))
    if revision.serving:
        earlier = tuple(manifest.key for manifest in manifests)
        manifests.append(serving_deployment(owner, revision, revision.serving, earlier))
    if revision.disruption_budget:
        manifests.append(pod_disruption_budget(owner, revision, manifests[-1].key))
    return RevisionManifests(hash=revision.hash, manifests=tuple(manifests))


def _check(desired: DesiredStack) -> None:
    where = f"stack of {desired.owner.namespace}/{desired.owner.name}"
    hashes = Counter(revision.hash for revision in desired.revisions)
    if repeated := [revision for revision, count in hashes.items() if count > 1]:
        raise InvalidStackError(f"{where}: revision {repeated[0]} is listed more than once")
    if desired.selected is not None and desired.selected not in hashes:
        raise InvalidStackError(f"{where}: the selected revision {desired.selected} is not in it")
