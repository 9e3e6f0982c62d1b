"""Desired stacks for the tests of `components`: one that has everything, and strategies over all of them."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from components.desired import (
    DesiredRevision,
    DesiredStack,
    EnvironmentVariable,
    JsonObject,
    Owner,
    Placement,
    Prefetch,
    SecretKey,
    Serving,
    Store,
)
from components.manifests import Manifest, render

OWNER = Owner(namespace="team-a", name="laya", uid="6f1c2a34-0000-4000-8000-0123456789ab")
REVISION = "0123456789abcdef"
LABELS = {"decisionmodel.io/name": "laya", "decisionmodel.io/revision": REVISION}
IMAGE = "ghcr.io/ollaya-dev/ollaya:0.12.0@sha256:" + "f7" * 32

STORE = Store(size="10Gi")
SHARED_STORE = Store(size="10Gi", access_modes=("ReadWriteMany",))
PREFETCH = Prefetch(
    image=IMAGE,
    script='set -eu\nollaya pull -- "$MODEL"',
    environment=(
        EnvironmentVariable(name="MODEL", value="laya:en"),
        EnvironmentVariable(name="OLLAYA_HF_TOKEN", secret=SecretKey(name="hub", key="token")),
    ),
    deadline_seconds=1800,
)
SERVING = Serving(
    image=IMAGE,
    environment=(
        EnvironmentVariable(name="OLLAYA_MODELS", value="/models"),
        EnvironmentVariable(name="OLLAYA_API_KEY", secret=SecretKey(name="keys", key="serving")),
    ),
    replicas=1,
    device="cpu",
    resources={"requests": {"cpu": "1", "memory": "3584Mi"}},
)


def stack(
    *,
    store: Store = STORE,
    prefetch: Prefetch | None = PREFETCH,
    serving: Serving | None = SERVING,
    budget: bool = True,
    selected: bool = True,
) -> DesiredStack:
    """One revision, by default with everything it can have."""
    revision = DesiredRevision(hash=REVISION, store=store, prefetch=prefetch, serving=serving, disruption_budget=budget)
    return DesiredStack(owner=OWNER, revisions=(revision,), selected=REVISION if selected else None)


def rendered(desired: DesiredStack, kind: str) -> JsonObject:
    """The only object of a kind."""
    (found,) = [manifest.object for manifest in render(desired) if manifest.kind == kind]
    return found


def job_pod(**changes: Any) -> Any:
    return rendered(stack(prefetch=replace(PREFETCH, **changes)), "Job")["spec"]["template"]["spec"]


def serving_pod(store: Store = STORE, **changes: Any) -> Any:
    return rendered(stack(store=store, serving=replace(SERVING, **changes)), "Deployment")["spec"]["template"]["spec"]


def live(manifest: Manifest, *, uid: str = OWNER.uid) -> dict[str, Any]:
    """The object as the API server returns it, controlled by `uid`."""
    obj: dict[str, Any] = thawed(manifest.object)
    obj["metadata"] |= {
        "uid": f"uid-of-{manifest.name}",
        "resourceVersion": "4711",
        "generation": 3,
        "creationTimestamp": "2024-05-01T10:00:00Z",
        "managedFields": [{"manager": "decisionmodel-stack"}],
    }
    obj["metadata"]["ownerReferences"][0]["uid"] = uid
    return obj


def thawed(value: Any) -> Any:
    """A deep copy without shared parts, free to be changed."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thawed(item) for item in value]
    return value


def words(prefix: str = "", max_size: int = 12) -> st.SearchStrategy[str]:
    """Names that are valid wherever Kubernetes wants one."""
    return st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=max_size).map(
        lambda text: f"{prefix}x{text}"
    )


revisions = st.text("0123456789abcdef", min_size=16, max_size=16)
model_names = st.from_regex(r"[a-z]([-a-z0-9]{0,41}[a-z0-9])?", fullmatch=True)
namespaces = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
owners = st.builds(Owner, namespace=namespaces, name=model_names, uid=st.uuids().map(str))
quantities = st.from_regex(r"[1-9][0-9]{0,3}(m|Mi|Gi|)", fullmatch=True)
stores = st.builds(
    Store,
    size=quantities,
    access_modes=st.sampled_from([("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod",)]),
    storage_class_name=st.none() | words() | st.just(""),
    recovering=st.booleans(),
)
placements = st.builds(
    Placement,
    node_selector=st.dictionaries(words(), words(), max_size=2),
    tolerations=st.lists(st.fixed_dictionaries({"key": words(), "operator": st.just("Exists")}), max_size=2).map(tuple),
    affinity=st.none()
    | st.builds(
        lambda key, value: {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {key: value}}, "topologyKey": "topology.kubernetes.io/zone"}
                ]
            }
        },
        words(),
        words(),
    ),
    runtime_class_name=st.none() | words(),
)
environments = st.lists(
    st.builds(EnvironmentVariable, name=words("E_"), value=words())
    | st.builds(EnvironmentVariable, name=words("S_"), secret=st.builds(SecretKey, name=words(), key=words())),
    max_size=4,
    unique_by=lambda variable: variable.name,
).map(tuple)
resources = st.dictionaries(
    st.sampled_from(["limits", "requests"]), st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities)
)
prefetches = st.builds(
    Prefetch,
    image=words(),
    script=words(),
    environment=environments,
    deadline_seconds=st.integers(60, 86_400),
    seeded=st.booleans(),
    prune=st.booleans(),
    placement=placements,
)
checksums = st.none() | st.text("0123456789abcdef", min_size=16, max_size=16)
servings = st.builds(
    Serving,
    image=words(),
    environment=environments,
    replicas=st.integers(0, 4),
    device=st.sampled_from(["cpu", "cuda"]),
    resources=resources,
    placement=placements,
    api_key_checksum=checksums,
    template_api_key_checksum=checksums,
)


@st.composite
def stacks(draw: Callable[[st.SearchStrategy[Any]], Any]) -> DesiredStack:
    """Any stack of up to two revisions."""
    hashes = draw(st.lists(revisions, max_size=2, unique=True))
    desired = tuple(
        DesiredRevision(
            hash=each,
            store=draw(stores),
            prefetch=draw(st.none() | prefetches),
            serving=draw(st.none() | servings),
            disruption_budget=draw(st.booleans()),
        )
        for each in hashes
    )
    selected = draw(st.none() | st.sampled_from(hashes)) if hashes else None
    return DesiredStack(owner=draw(owners), revisions=desired, selected=selected)
