"""The watch cache: objects of one resource with secondary indexes, read synchronously.

Reflectors fill it; workers read it; a worker's own writes go in through `upsert_newer`, so that the next pass sees
them before the watch does. Objects are shared: treat them as frozen.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.kernel.resources import (
    KubernetesObject,
    ObjectKey,
    Trim,
    drop_managed_fields,
    object_key,
    object_uid,
    resource_version,
)

IndexFunction = Callable[[KubernetesObject], Iterable[str]]
ChangeCallback = Callable[[KubernetesObject | None, KubernetesObject | None], None]


class Store:
    """Objects by key, and by the values of named indexes.

    Args:
        indexes: For each index name, what values an object has in it (its owner's uid, a label).
        trim: What is kept of each object; whoever lists or watches applies it, so that no more is ever held.
    """

    def __init__(self, indexes: Mapping[str, IndexFunction] | None = None, *, trim: Trim = drop_managed_fields) -> None:
        self.trim = trim
        self._objects: dict[ObjectKey, KubernetesObject] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, defaultdict[str, set[ObjectKey]]] = {
            name: defaultdict(set) for name in self._index_functions
        }
        self._callbacks: list[ChangeCallback] = []
        self._observed: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[KubernetesObject]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._objects.values()))

    def get(self, key: ObjectKey) -> KubernetesObject | None:
        """Return the object, None when it is not there."""
        return self._objects.get(key)

    def keys(self, namespace: str = "") -> list[ObjectKey]:
        """Return the keys in one namespace, or all of them."""
        return [key for key in self._objects if not namespace or key.namespace == namespace]

    def by_index(self, index: str, value: str) -> list[KubernetesObject]:
        """Return the objects with that value in the named index, ordered by key."""
        return [self._objects[key] for key in sorted(self._indexes[index].get(value, ()))]

    def on_change(self, callback: ChangeCallback) -> None:
        """Call back with (old, new) after every change; `old` is None for an addition, `new` for a removal.

        Callbacks run inside the change, must not block, and an exception from one ends the reflector: it is a bug.
        """
        self._callbacks.append(callback)

    def upsert(self, obj: KubernetesObject) -> bool:
        """Put an object the watch or a list brought, unless the stored one is as new; returns whether it was put."""
        key = object_key(obj)
        stored = self._objects.get(key)
        if stored is not None and _is_as_new(stored, obj):
            return False
        self._put(key, obj)
        return True

    def upsert_newer(self, obj: KubernetesObject) -> bool:
        """Put the object a write of ours returned; False when the store knew better already.

        The answer to a write can arrive after the watch has reported a later change or even the deletion; it must not
        turn the store back. Only give it objects that the reflectors' selector would select.
        """
        namespace = object_key(obj).namespace
        observed = max(self.observed(namespace), self.observed(""))
        if self.get(object_key(obj)) is None and parse_version(resource_version(obj)) <= observed:
            return False  # The watch is past this version and has no such object: it is gone.
        return self.upsert(self.trim(obj))

    def overwrite(self, obj: KubernetesObject) -> None:
        """Put the object even if the stored one has a higher version: history itself went back."""
        self._put(object_key(obj), obj)

    def remove(self, key: ObjectKey, uid: str | None = None) -> bool:
        """Remove the object, if it is (still) the incarnation with that uid."""
        stored = self._objects.get(key)
        if stored is None or (uid is not None and object_uid(stored) != uid):
            return False
        del self._objects[key]
        self._index(key, stored, present=False)
        self._notify(stored, None)
        return True

    def observe(self, namespace: str, version: str) -> None:
        """Note how far the watch of a namespace ("" for all) has come."""
        self._observed[namespace] = parse_version(version)

    def observed(self, namespace: str) -> int:
        """How far the watch of exactly that namespace ("" for all) has come; -1 before its first list."""
        return self._observed.get(namespace, -1)

    def _put(self, key: ObjectKey, obj: KubernetesObject) -> None:
        stored = self._objects.get(key)
        if stored is not None and object_uid(stored) != object_uid(obj):
            # Deleted and created again while nobody looked: two changes for whoever listens.
            self.remove(key)
            stored = None
        if stored is not None:
            self._index(key, stored, present=False)
        self._objects[key] = obj
        self._index(key, obj, present=True)
        self._notify(stored, obj)

    def _index(self, key: ObjectKey, obj: KubernetesObject, *, present: bool) -> None:
        for name, function in self._index_functions.items():
            index = self._indexes[name]
            for value in set(function(obj)):
                if present:
                    index[value].add(key)
                    continue
                index[value].discard(key)
                if not index[value]:
                    del index[value]

    def _notify(self, old: KubernetesObject | None, new: KubernetesObject | None) -> None:
        for callback in self._callbacks:
            callback(old, new)


def parse_version(version: str) -> int:
    """Order resourceVersions, which are decimal numbers on every server since 1.35; -1 for anything else."""
    return int(version) if version.isascii() and version.isdigit() else -1


def _is_as_new(stored: KubernetesObject, obj: KubernetesObject) -> bool:
    """Whether `obj` brings nothing; of two versions that are no numbers, a different one is news."""
    stored_version, version = resource_version(stored), resource_version(obj)
    if stored_version == version:
        return object_uid(stored) == object_uid(obj)
    return parse_version(stored_version) > parse_version(version)
