"""The objects of the fake API server: versions, history, preconditions, status, finalizers, garbage collection."""

import re
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tests.fakes.apply_patch import apply, merge_patch
from tests.fakes.json_copy import json_copy

Object = dict[str, Any]
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class ApiError(Exception):
    """An answer other than success, as a meta/v1 Status."""

    def __init__(self, code: int, reason: str, message: str, *, causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.causes = causes

    def status(self) -> Object:
        """Return the Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": {"causes": [{"reason": cause} for cause in self.causes]},
            "code": self.code,
        }


@dataclass(frozen=True)
class Target:
    """What a request path names."""

    api_version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def collection(self) -> tuple[str, str]:
        return self.api_version, self.plural

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True)
class Change:
    """One step of history; `old` and `new` are None for creation and deletion."""

    version: int
    collection: tuple[str, str]
    old: Object | None
    new: Object | None

    @property
    def last(self) -> Object:
        """The object after the change, or the deleted one with the deletion's version."""
        obj = self.new or self.old
        assert obj is not None
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}


@dataclass(frozen=True)
class Snapshot:
    """Everything that a store holds; committed objects are never changed, so it shares them."""

    version: int
    oldest: int
    history: tuple[Change, ...]
    collections: dict[tuple[str, str], dict[tuple[str, str], Object]]
    applied: dict[tuple[str, str, str], Object]


class FakeStore:
    """All objects by collection, and what happened to them."""

    def __init__(self, *, garbage_collection: bool = True) -> None:
        self.version = 1000
        self.oldest = 0  # Watches from before this version are answered with 410.
        self.history: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self.stamp: Callable[[], str] = _now  # The time, as objects carry it.
        self._collections: dict[tuple[str, str], dict[tuple[str, str], Object]] = defaultdict(dict)
        self._applied: dict[tuple[str, str, str], Object] = {}
        self._garbage_collection = garbage_collection

    def snapshot(self) -> Snapshot:
        """Return what the store holds, to go back to it."""
        collections = {name: dict(objects) for name, objects in self._collections.items()}
        return Snapshot(self.version, self.oldest, tuple(self.history), collections, dict(self._applied))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot; open watches are told nothing of it."""
        self.version, self.oldest, self.history = snapshot.version, snapshot.oldest, list(snapshot.history)
        self._collections.clear()
        self._collections.update({name: dict(objects) for name, objects in snapshot.collections.items()})
        self._applied = dict(snapshot.applied)

    def collection(self, target: Target) -> list[Object]:
        """Return the live objects of a collection, in one namespace or in all, ordered by key."""
        objects = self._collections[target.collection]
        return [objects[key] for key in sorted(objects) if not target.namespace or key[0] == target.namespace]

    def get(self, target: Target) -> Object:
        obj = self._collections[target.collection].get(target.key)
        if obj is None:
            raise ApiError(404, "NotFound", f'{target.plural} "{target.name}" not found')
        return obj

    def find(self, target: Target) -> Object | None:
        return self._collections[target.collection].get(target.key)

    def create(self, target: Target, body: Object) -> Object:
        """Create an object from a request body; its status is not taken over."""
        metadata = body.get("metadata", {})
        if not metadata.get("name"):
            raise ApiError(422, "Invalid", "name is required")
        target = replace(target, name=metadata["name"])
        if self.find(target) is not None:
            raise ApiError(409, "AlreadyExists", f'{target.plural} "{target.name}" already exists')
        return self.put(target, {name: value for name, value in body.items() if name != "status"})

    def put(self, target: Target, obj: Object) -> Object:
        """Write an object as it is, status included, as some other actor in the cluster would."""
        _validate(obj)
        live = self.find(target)
        new = json_copy(obj)
        metadata = new.setdefault("metadata", {})
        metadata["name"] = target.name
        if target.namespace:
            metadata["namespace"] = target.namespace
        kept = live["metadata"] if live else {}
        metadata["uid"] = metadata.get("uid") or kept.get("uid") or str(uuid.uuid4())
        metadata["creationTimestamp"] = kept.get("creationTimestamp") or self.stamp()
        metadata["generation"] = kept.get("generation", 0) + (live is None or _spec(live) != _spec(new))
        if live is not None and _comparable(live) == _comparable(new):
            return live
        return self._commit(target, live, new)

    def replace(self, target: Target, body: Object) -> Object:
        """PUT: with a resourceVersion in the body a compare-and-swap."""
        live = self.get(target)
        self._check(target, live, body.get("metadata", {}))
        return self._write(target, live, json_copy(body))

    def merge(self, target: Target, patch: Object) -> Object:
        """PATCH with a JSON merge patch."""
        live = self.get(target)
        if target.plural == "events" and set(patch) - {"series", "metadata", "apiVersion", "kind"}:
            raise ApiError(422, "Invalid", "field is immutable")
        self._check(target, live, patch.get("metadata", {}))
        return self._write(target, live, merge_patch(live, patch))

    def apply(self, target: Target, body: Object, manager: str) -> Object:
        """PATCH with server-side apply."""
        live = self.find(target)
        uid = body.get("metadata", {}).get("uid")
        if live is None and target.subresource:
            raise ApiError(404, "NotFound", f'{target.plural} "{target.name}" not found')
        if live is None and uid:
            raise ApiError(409, "Conflict", "uid mismatch: the object does not exist")
        if live is None:
            created = self.put(target, {name: value for name, value in body.items() if name != "status"})
            self._remember(created, target, manager, body)
            return created
        self._check(target, live, body.get("metadata", {}))
        before = self._applied.get((live["metadata"]["uid"], manager, target.subresource), {})
        written = self._write(target, live, apply(live, before, body))
        self._remember(live, target, manager, body)
        return written

    def delete(self, target: Target, preconditions: Object | None = None, *, orphan: bool = False) -> Object:
        """Delete an object, or mark it deleted while it has finalizers."""
        live = self.get(target)
        for field, wanted in (preconditions or {}).items():
            if live["metadata"].get(field) != wanted:
                raise ApiError(409, "Conflict", f"Precondition failed: {field} in precondition: {wanted}")
        if live["metadata"].get("finalizers"):
            return self._mark_deleted(target, live)
        del self._collections[target.collection][target.key]
        self._record(target, live, None)
        if self._garbage_collection and not orphan:
            self._collect(live["metadata"]["uid"])
        return live

    def _mark_deleted(self, target: Target, live: Object) -> Object:
        if "deletionTimestamp" in live["metadata"]:
            return live
        new = json_copy(live)
        new["metadata"]["deletionTimestamp"] = self.stamp()
        new["metadata"]["generation"] += 1
        return self._commit(target, live, new)

    def _write(self, target: Target, live: Object, new: Object) -> Object:
        """Write what a request made of the live object: the main resource or its status, never both."""
        if target.subresource == "status":
            new = {**live, "status": new.get("status", {})}
        else:
            new = {**{name: value for name, value in new.items() if name != "status"}}
            if "status" in live:
                new["status"] = live["status"]
        deleted = live["metadata"].get("deletionTimestamp")
        if deleted:
            new["metadata"] = {**new["metadata"], "deletionTimestamp": deleted}
        written = self.put(target, new)
        if deleted and not written["metadata"].get("finalizers"):
            return self.delete(target)
        return written

    def _check(self, target: Target, live: Object, metadata: Object) -> None:
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if version and version != live["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", f'{target.plural} "{target.name}": the object has been modified')
        if uid and uid != live["metadata"]["uid"]:
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")

    def _remember(self, obj: Object, target: Target, manager: str, body: Object) -> None:
        self._applied[obj["metadata"]["uid"], manager, target.subresource] = json_copy(body)

    def _commit(self, target: Target, live: Object | None, new: Object) -> Object:
        self._collections[target.collection][target.key] = new
        self._record(target, live, new)
        return new

    def _record(self, target: Target, old: Object | None, new: Object | None) -> None:
        self.version += 1
        if new is not None:
            new["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, target.collection, old, new)
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)

    def _collect(self, owner_uid: str) -> None:
        for collection, objects in list(self._collections.items()):
            for (namespace, name), obj in list(objects.items()):
                owners = obj["metadata"].get("ownerReferences", [])
                if any(owner.get("uid") == owner_uid for owner in owners):
                    self.delete(Target(*collection, namespace, name))


def _validate(obj: Object) -> None:
    kind = obj.get("kind")
    if kind == "Event":
        _need_micro_time(obj, "eventTime")
        if len(obj.get("note", "").encode()) > 1024:
            raise ApiError(422, "Invalid", "note: can have at most 1024 characters")
    if kind == "Lease":
        for field in ("renewTime", "acquireTime"):
            _need_micro_time(obj.get("spec", {}), field)


def _need_micro_time(fields: Object, name: str) -> None:
    if name in fields and not _MICRO_TIME.fullmatch(fields[name]):
        raise ApiError(400, "BadRequest", f"{name}: cannot parse {fields[name]!r} with six decimals")


def _spec(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status", "apiVersion", "kind"}}


def _comparable(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
