"""What counts as drift (spec sections 4.5 and 4.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.desired import DesiredStack
from components.drift import Cause, Drift, find_drift
from components.manifests import Manifest, render
from tests.components.annotations import OTHERS_ANNOTATIONS, OUR_ANNOTATIONS
from tests.components.stacks import IMAGE, OWNER, REVISION, SERVING, STORE, live, stack, stacks, thawed

Edit = Callable[[dict[str, Any]], object]
REVISIONED = f"laya-{REVISION}"


def drift_of(kind: str, edit: Edit, desired: DesiredStack | None = None) -> list[tuple[Cause, str]]:
    """Edit the only live object of a kind; return what is found, all of it on that object."""
    manifests = render(desired or stack(serving=replace(SERVING, template_api_key_checksum="aa")))
    objects = [live(manifest) for manifest in manifests]
    for obj in objects:
        if obj["kind"] == kind:
            edit(obj)
    found = find_drift(manifests, objects, OWNER.uid)
    assert {drift.kind for drift in found} <= {kind}
    return [(drift.cause, drift.path) for drift in found]


def template(obj: dict[str, Any]) -> Any:
    return obj["spec"]["template"]


def container(obj: dict[str, Any]) -> Any:
    return template(obj)["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("kind", "edit", "cause", "path"),
    [
        ("Deployment", lambda d: d["spec"].update(replicas=5), Cause.CHANGED, "spec.replicas"),
        (
            "Deployment",
            lambda d: d["spec"].update(strategy={"type": "RollingUpdate"}),
            Cause.CHANGED,
            "spec.strategy.type",
        ),
        (
            "Deployment",
            lambda d: container(d).update(image="other"),
            Cause.CHANGED,
            "spec.template.spec.containers[ollaya].image",
        ),
        (
            "Deployment",
            lambda d: container(d)["env"][1].update(value="/tmp"),
            Cause.CHANGED,
            "spec.template.spec.containers[ollaya].env[OLLAYA_MODELS].value",
        ),
        (
            "Deployment",
            lambda d: container(d)["env"].append({"name": "LD_PRELOAD", "value": "/x"}),
            Cause.ADDED,
            "spec.template.spec.containers[ollaya].env[LD_PRELOAD]",
        ),
        (
            "Deployment",
            lambda d: template(d)["spec"]["containers"].append({"name": "sidecar"}),
            Cause.ADDED,
            "spec.template.spec.containers[sidecar]",
        ),
        (
            "Deployment",
            lambda d: template(d)["spec"].update(initContainers=[{"name": "first"}]),
            Cause.ADDED,
            "spec.template.spec.initContainers[first]",
        ),
        (
            "Deployment",
            lambda d: container(d)["volumeMounts"].append({"name": "store", "mountPath": "/etc"}),
            Cause.ADDED,
            "spec.template.spec.containers[ollaya].volumeMounts[/etc]",
        ),
        (
            "Deployment",
            lambda d: template(d)["spec"]["volumes"].append({"name": "host"}),
            Cause.ADDED,
            "spec.template.spec.volumes[host]",
        ),
        (
            "Deployment",
            lambda d: template(d)["metadata"]["annotations"].update({"decisionmodel.io/inject": "true"}),
            Cause.ADDED,
            "spec.template.metadata.annotations[decisionmodel.io/inject]",
        ),
        (
            "Deployment",
            lambda d: template(d)["metadata"]["annotations"].clear(),
            Cause.CHANGED,
            "spec.template.metadata.annotations[decisionmodel.io/apikey-checksum]",
        ),
        (
            "Deployment",
            lambda d: template(d)["metadata"]["labels"].update({"decisionmodel.io/prefetch-revision": "x"}),
            Cause.ADDED,
            "spec.template.metadata.labels[decisionmodel.io/prefetch-revision]",
        ),
        (
            "Deployment",
            lambda d: d["metadata"]["labels"].pop("decisionmodel.io/revision"),
            Cause.CHANGED,
            "metadata.labels[decisionmodel.io/revision]",
        ),
        (
            "Deployment",
            lambda d: d["metadata"]["annotations"].update({"decisionmodel.io/spec-hash": "0"}),
            Cause.CHANGED,
            "metadata.annotations[decisionmodel.io/spec-hash]",
        ),
        (
            "Service",
            lambda s: s["spec"]["selector"].update({"decisionmodel.io/revision": "f" * 16}),
            Cause.CHANGED,
            "spec.selector[decisionmodel.io/revision]",
        ),
        ("Service", lambda s: s["spec"]["selector"].update(app="x"), Cause.ADDED, "spec.selector[app]"),
        ("Service", lambda s: s["spec"].update(type="NodePort"), Cause.CHANGED, "spec.type"),
        (
            "Service",
            lambda s: s["spec"]["ports"][0].update(targetPort=80),
            Cause.CHANGED,
            "spec.ports[http].targetPort",
        ),
        (
            "Service",
            lambda s: s["spec"]["ports"].append({"name": "metrics", "port": 9090}),
            Cause.ADDED,
            "spec.ports[metrics]",
        ),
        (
            "Service",
            lambda s: s["metadata"]["labels"].update({"decisionmodel.io/revision": REVISION}),
            Cause.ADDED,
            "metadata.labels[decisionmodel.io/revision]",
        ),
        ("PodDisruptionBudget", lambda b: b["spec"].update(maxUnavailable=0), Cause.CHANGED, "spec.maxUnavailable"),
        (
            "PersistentVolumeClaim",
            lambda c: c["spec"]["resources"]["requests"].update(storage="9Gi"),
            Cause.CHANGED,
            "spec.resources.requests.storage",
        ),
        (
            "PersistentVolumeClaim",
            lambda c: c["metadata"]["annotations"].update({"decisionmodel.io/store-recovering": "true"}),
            Cause.ADDED,
            "metadata.annotations[decisionmodel.io/store-recovering]",
        ),
        ("Job", lambda j: j["metadata"]["labels"].clear(), Cause.CHANGED, "metadata.labels[decisionmodel.io/name]"),
    ],
)
def test_drift(kind: str, edit: Edit, cause: Cause, path: str) -> None:
    assert (cause, path) in drift_of(kind, edit)


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        (
            "Deployment",
            lambda d: template(d)["metadata"]["annotations"].update({"kubectl.kubernetes.io/restartedAt": "now"}),
        ),
        ("Deployment", lambda d: d["metadata"]["annotations"].update({"deployment.kubernetes.io/revision": "7"})),
        ("Deployment", lambda d: d["metadata"]["labels"].update({"team": "a"})),
        ("Deployment", lambda d: template(d)["metadata"]["labels"].update({"team": "a"})),
        (
            "Deployment",
            lambda d: template(d)["spec"].update(schedulerName="default-scheduler", dnsPolicy="ClusterFirst"),
        ),
        ("Deployment", lambda d: container(d).update(terminationMessagePath="/dev/termination-log")),
        ("Deployment", lambda d: container(d)["resources"]["requests"].update(cpu="1000m")),
        ("Deployment", lambda d: container(d)["env"].reverse()),
        ("Deployment", lambda d: d["metadata"].update(deletionTimestamp="now") or d["spec"].update(replicas=9)),
        ("Service", lambda s: s["spec"].update(clusterIP="10.96.0.7", sessionAffinity="None")),
        ("Service", lambda s: s["metadata"].update(annotations={**s["metadata"]["annotations"], "lb": "x"})),
        ("PersistentVolumeClaim", lambda c: c["spec"]["resources"]["requests"].update(storage="11Gi")),
        ("PersistentVolumeClaim", lambda c: c["spec"]["resources"]["requests"].update(storage="10240Mi")),
        (
            "PersistentVolumeClaim",
            lambda c: c["spec"].update(accessModes=["ReadWriteMany"], storageClassName="standard", volumeName="pv-1"),
        ),
        ("Job", lambda j: j["spec"].update(suspend=True, backoffLimit=0, activeDeadlineSeconds=1)),
        ("Job", lambda j: container(j).update(image="earlier")),
        (
            "Job",
            lambda j: (
                j["metadata"]["labels"].clear()
                or j.update(status={"conditions": [{"type": "Complete", "status": "True"}]})
            ),
        ),
    ],
)
def test_no_drift(kind: str, edit: Edit) -> None:
    assert drift_of(kind, edit) == []


@given(st.dictionaries(OTHERS_ANNOTATIONS, st.text(max_size=20), min_size=1, max_size=3))
def test_what_other_tools_note_on_pods_is_theirs(noted: dict[str, str]) -> None:
    """As `kubectl rollout restart` does, Rancher's redeploy, Reloader, or an admission policy that annotates."""
    assert drift_of("Deployment", lambda d: template(d)["metadata"]["annotations"].update(noted)) == []


@given(OUR_ANNOTATIONS)
def test_an_annotation_of_our_domain_on_pods_is_ours_alone(key: str) -> None:
    found = drift_of("Deployment", lambda d: template(d)["metadata"]["annotations"].update({key: "x"}))
    assert [cause for cause, _ in found] == [Cause.ADDED]


def test_a_note_on_pods_hides_nothing_else() -> None:
    def edit(deployment: dict[str, Any]) -> None:
        template(deployment)["metadata"]["annotations"] = {"cattle.io/timestamp": "now"}
        container(deployment)["env"].append({"name": "STAKATER_KEY", "value": "x"})

    assert drift_of("Deployment", edit) == [
        (Cause.CHANGED, "spec.template.metadata.annotations[decisionmodel.io/apikey-checksum]"),
        (Cause.ADDED, "spec.template.spec.containers[ollaya].env[STAKATER_KEY]"),
    ]


def test_what_is_missing_is_named() -> None:
    manifests = render(stack())
    assert find_drift(manifests, [], OWNER.uid) == tuple(
        Drift(manifest.kind, manifest.name, Cause.MISSING) for manifest in manifests
    )


@pytest.mark.parametrize(
    "references",
    [
        None,
        [],
        [{"uid": "another", "controller": True}],
        [{"uid": OWNER.uid, "controller": False}],
        [{"uid": OWNER.uid}, {"uid": "another", "controller": True}],
    ],
)
@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Job", "Deployment", "PodDisruptionBudget", "Service"])
def test_an_object_that_another_controls_is_foreign_and_nothing_else(kind: str, references: Any) -> None:
    def edit(obj: dict[str, Any]) -> None:
        obj["metadata"]["ownerReferences"] = references
        obj["spec"] = {}

    assert drift_of(kind, edit) == [(Cause.FOREIGN, "")]


def test_ours_but_not_desired_is_unexpected() -> None:
    manifests = render(stack())
    objects = [live(manifest) for manifest in manifests]
    found = find_drift(manifests[:1], objects, OWNER.uid)
    assert set(found) == {Drift(manifest.kind, manifest.name, Cause.UNEXPECTED) for manifest in manifests[1:]}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Pod"},
        {"kind": "ReplicaSet"},
        {"kind": "ConfigMap"},
        {"deletionTimestamp": "now"},
        {"ownerReferences": [{"uid": "another", "controller": True}]},
        {"ownerReferences": []},
    ],
    ids=str,
)
def test_what_others_write_own_or_already_delete_is_not_unexpected(change: dict[str, Any]) -> None:
    (claim,) = render(stack(prefetch=None, serving=None, budget=False, selected=False))
    obj = live(claim)
    obj["metadata"]["name"] = "other"
    obj["metadata"] |= change
    obj["kind"] = change.get("kind", obj["kind"])
    assert find_drift([], [obj], OWNER.uid) == ()


STRICT_MAPS = {"labels", "annotations", "selector", "matchLabels"}
"""Maps whose keys are not free for defaults."""


@st.composite
def with_defaults(draw: Callable[[st.SearchStrategy[Any]], Any], obj: dict[str, Any]) -> dict[str, Any]:
    """What an API server may make of an object: fields added at any level, nothing taken away."""
    for node in list(_objects(obj)):
        if draw(st.booleans()):
            node["defaulted"] = draw(st.sampled_from([True, 30, "ClusterFirst", {"nested": 1}]))
    return obj


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for key, item in value.items():
            if key not in STRICT_MAPS:
                yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


@settings(max_examples=40)
@given(st.data(), stacks())
def test_what_was_rendered_never_drifts_from_itself_with_defaults(data: st.DataObject, desired: DesiredStack) -> None:
    manifests = render(desired)
    objects = [data.draw(with_defaults(live(manifest, uid=desired.owner.uid))) for manifest in manifests]
    assert find_drift(manifests, objects, desired.owner.uid) == ()


Path = tuple[str | int, ...]


def declared_leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for key, item in children:
        found = True
        yield from declared_leaves(item, (*path, key))
    if not found:
        yield path


def mutations(manifest: Manifest) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object that differs from the manifest in one declared leaf, changed or removed."""
    for path in declared_leaves(
        {"metadata": thawed(manifest.object["metadata"]), "spec": thawed(manifest.object["spec"])}
    ):
        if path[:2] in (("metadata", "name"), ("metadata", "namespace")):
            continue  # another object altogether
        for change in (changed, removed):
            obj = live(manifest)
            parent: Any = obj
            for key in path[:-1]:
                parent = parent[key]
            change(parent, path[-1])
            yield path, obj


def changed(parent: Any, key: str | int) -> None:
    old = parent[key]
    parent[key] = not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}-edited"


def removed(parent: Any, key: str | int) -> None:
    del parent[key]


EVERYTHING = stack(
    serving=replace(
        SERVING,
        image=IMAGE,
        replicas=2,
        api_key_checksum="aa",
        template_api_key_checksum="aa",
        placement=replace(
            SERVING.placement,
            node_selector={"kubernetes.io/arch": "amd64"},
            tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},),
            runtime_class_name="nvidia",
        ),
    ),
    store=replace(STORE, access_modes=("ReadWriteOnce",)),
)


@pytest.mark.parametrize("kind", ["Deployment", "Service", "PodDisruptionBudget"])
def test_every_single_edit_of_a_declared_field_is_found(kind: str) -> None:
    (manifest,) = [manifest for manifest in render(EVERYTHING) if manifest.kind == kind]
    unnoticed = [path for path, obj in mutations(manifest) if not find_drift([manifest], [obj], OWNER.uid)]
    assert unnoticed == []
