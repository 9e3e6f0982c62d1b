"""The store: indexes that never drift, and the order of versions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kernel.resources import ObjectKey, object_key
from reconciler.kernel.store import Store

KEY = ObjectKey("ns", "a")


def obj(name: str = "a", version: str = "1", *, uid: str = "u", labels: tuple[str, ...] = ()) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version, "labels": list(labels)}
    return {"metadata": metadata}


def by_labels(stored: dict[str, Any]) -> list[str]:
    return list(stored["metadata"]["labels"])


OBJECTS = st.builds(
    obj,
    st.sampled_from("abc"),
    st.integers(1, 9).map(str),
    uid=st.sampled_from(["u", "v"]),
    labels=st.lists(st.sampled_from("xyz")).map(tuple),
)


@given(st.lists(st.tuples(st.sampled_from(["upsert", "upsert_newer", "overwrite", "remove"]), OBJECTS)))
def test_indexes_and_callbacks_always_tell_what_the_store_holds(steps: list[tuple[str, dict[str, Any]]]) -> None:
    store = Store({"label": by_labels})
    mirror: dict[ObjectKey, dict[str, Any]] = {}

    def follow(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        assert old is None or mirror.pop(object_key(old)) is old
        if new is not None:
            mirror[object_key(new)] = new

    store.on_change(follow)
    for step, item in steps:
        store.remove(object_key(item)) if step == "remove" else getattr(store, step)(item)
    assert mirror == {object_key(item): item for item in store}
    for label in "xyz":
        expected = [mirror[key] for key in sorted(mirror) if label in by_labels(mirror[key])]
        assert store.by_index("label", label) == expected


@pytest.mark.parametrize(
    ("stored", "arriving", "taken"),
    [
        (obj(version="9"), obj(version="10"), True),
        (obj(version="10"), obj(version="9"), False),
        (obj(version="10"), obj(version="10"), False),
        (obj(version="x"), obj(version="y"), True),
        (obj(version="9", uid="u"), obj(version="10", uid="v"), True),
    ],
    ids=["newer", "older", "same", "no numbers", "another uid"],
)
def test_versions_are_ordered_as_numbers(stored: dict[str, Any], arriving: dict[str, Any], *, taken: bool) -> None:
    store = Store()
    store.upsert(stored)
    assert store.upsert(arriving) is taken
    assert store.get(KEY) is (arriving if taken else stored)


def test_our_write_does_not_raise_an_object_the_watch_saw_deleted() -> None:
    store = Store()
    store.observe("", "20")
    assert not store.upsert_newer(obj(version="15"))
    assert store.upsert_newer(obj(version="21"))


def test_how_far_one_namespace_was_watched_says_nothing_of_another() -> None:
    store = Store()
    store.observe("other", "20")
    assert store.upsert_newer(obj(version="15"))


def test_a_deletion_spares_a_later_incarnation() -> None:
    store = Store()
    store.upsert(obj(uid="new"))
    assert not store.remove(KEY, uid="old")
    assert store.remove(KEY, uid="new")
