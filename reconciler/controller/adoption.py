"""What a DecisionModel that was deleted without its children left, taken over for the next one of its name.

With `kubectl delete --cascade=orphan` the garbage collector takes the owner's reference out of every child, and leaves
all else. What is taken over has to prove that it was made for the predecessor: by its name, by its labels, by the
reconciler's own field manager, and by belonging to nobody. Anything less is another's, and never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from api.keys import NAME_LABEL, REVISION_LABEL, STACK_FIELD_MANAGER
from components import names
from components.desired import JsonObject, Owner
from components.errors import InvalidNameError
from reconciler.controller.observation import name_of, terminating, uid_of
from reconciler.controller.watched import BUDGETS, CLAIMS, DEPLOYMENTS, JOBS, SERVICES, Watched
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, NotFound
from reconciler.kernel.resources import ObjectKey, Resource

_log = logging.getLogger(__name__)

_NAMES: Final[Mapping[Resource, Callable[[str, str], tuple[str, ...]]]] = {
    CLAIMS: lambda model, revision: (
        names.store(model, revision),
        names.store(model, revision, shared=True),
    ),
    JOBS: lambda model, revision: (names.prefetch_job(model, revision),),
    DEPLOYMENTS: lambda model, revision: (names.deployment(model, revision),),
    BUDGETS: lambda model, revision: (names.disruption_budget(model, revision),),
}
"""What a revision's objects may be called. The Service, which comes last, is the model's: it says what serves."""


def may_be_left(obj: JsonObject, resource: Resource, model: str) -> bool:
    """Whether an object may be a predecessor's, as far as the watch cache tells."""
    labels = obj["metadata"].get("labels") or {}
    if obj["metadata"].get("ownerReferences") or terminating(obj) or labels.get(NAME_LABEL) != model:
        return False
    if resource is SERVICES:
        return name_of(obj) == names.service(model)
    try:
        return name_of(obj) in _NAMES[resource](model, labels.get(REVISION_LABEL, ""))
    except InvalidNameError:
        return False


def is_left(obj: JsonObject, resource: Resource, model: str) -> bool:
    """Whether an object, as the API server has it now, was made by the reconciler for a predecessor."""
    applied = (each for each in obj["metadata"].get("managedFields") or () if each.get("operation") == "Apply")
    ours = any(each.get("manager") == STACK_FIELD_MANAGER for each in applied)
    return ours and may_be_left(obj, resource, model)


class Adopter:
    """Makes what a predecessor left the DecisionModel's own, before anything is decided about it."""

    def __init__(self, client: KubernetesClient, watched: Watched) -> None:
        self._client = client
        self._watched = watched
        self._refused: dict[ObjectKey, set[tuple[str, str]]] = {}

    async def adopt(self, owner: Owner) -> bool:
        """Take over what was left; return whether there was any, of which the watch cache may not know yet.

        Raises:
            KubernetesError: The API server did not answer; what was adopted by then stays so.
        """
        adopted = False
        for resource, obj in self._suspects(owner):
            adopted = await self._take(owner, resource, obj) or adopted
        return adopted

    def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered for a DecisionModel that is gone."""
        self._refused.pop(key, None)

    def _suspects(self, owner: Owner) -> Iterator[tuple[Resource, JsonObject]]:
        key = ObjectKey(owner.namespace, owner.name)
        children = self._watched.children_of(key)
        kinds = {
            CLAIMS: children.claims,
            JOBS: children.jobs,
            DEPLOYMENTS: children.deployments,
            BUDGETS: children.budgets,
            SERVICES: children.services,
        }
        found = [
            (resource, obj)
            for resource, objects in kinds.items()
            for obj in objects
            if may_be_left(obj, resource, owner.name)
        ]
        # Only of what is there now: an object that somebody changes again and again is remembered once.
        refused = self._refused.pop(key, set()) & {_version(obj) for _, obj in found}
        if refused:
            self._refused[key] = refused
        yield from (each for each in found if _version(each[1]) not in refused)

    async def _take(self, owner: Owner, resource: Resource, obj: JsonObject) -> bool:
        name = name_of(obj)
        live = await self._client.get(resource, owner.namespace, name)
        if live is None or uid_of(live) != uid_of(obj):
            return False
        if not is_left(live, resource, owner.name):
            self._refused.setdefault(ObjectKey(owner.namespace, owner.name), set()).add(_version(obj))
            return False
        metadata: dict[str, Any] = {field: live["metadata"][field] for field in ("uid", "resourceVersion")}
        body = {"metadata": {**metadata, "ownerReferences": [names.owner_reference(owner)]}}
        try:
            written = await self._client.merge_patch(resource, owner.namespace, name, body)
        except (Conflict, NotFound):
            return True  # It is another one by now: looked at again by the next pass.
        _log.info("took over %s %s/%s, which an earlier DecisionModel left", resource.kind, owner.namespace, name)
        self._watched.children[resource].upsert_newer(written)
        return True


def _version(obj: JsonObject) -> tuple[str, str]:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion", ""))
