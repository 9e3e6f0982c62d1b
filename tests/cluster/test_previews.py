"""What `dmctl preview` says is what then happens on a real cluster: every row of spec section 5.15, and refusals.

Rows are carried out side by side, in three batches on the same DecisionModels: what is refused, what makes a new
revision, what happens in place. Each batch is previewed as a whole before any of it is applied.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from reconciler.engine.images import DEFAULT_VERSION, runtime_image
from tests.cli.preview.changes import COMBINED, IN_PLACE, NEW_REVISIONS, REFUSED, SERVING, Spec
from tests.cli.preview.happenings import predicted_in_json
from tests.cluster.batches import Batch, Row, Stage
from tests.cluster.flags import restarted_with
from tests.cluster.observing import Bench, decision_model
from tests.cluster.previewing import Dmctl, Told, View, look, write_reader_kubeconfig
from tools.cluster.layout import STORAGE_CLASS
from tools.demo import port_forward
from tools.deploy import PulumiStack
from tools.environment import MANIFESTS_PORT, REGISTRY, Environment
from tools.kubectl import KubectlError, wait_until
from tools.observer import Object, condition, is_observed, phase

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
PINNED, AT_ONCE, FIRST = "digest", "all at once", "a first rollout"
INVALID, TAKEN = "an engine that there is not", "a name that is taken"
MOVING = "/tags/library/laya/moving"

# The layers of the only model in a store, as they lie on its volume.
STORED = """\
import json, pathlib
store = pathlib.Path("/models")
(manifest,) = (path for path in store.glob("manifests/*/*/*/*") if path.is_file())
config = json.loads(manifest.read_bytes())["config"]["digest"].replace(":", "-")
print(sum(path.stat().st_size for path in store.glob("blobs/*") if path.name != config))
"""


def name_of(row: str) -> str:
    return re.sub(r"[^a-z]+", "-", row.lower())


ROLLED = (*NEW_REVISIONS, AT_ONCE, PINNED)
STARTED_WITH: dict[str, Spec] = {name_of(row): SERVING for row in ROLLED} | {
    PINNED: {**SERVING, "model": "laya:moving"}
}
# Only one GPU is there: the model on it changes no Pod any more.
CHANGED_LATER = [name_of(row) for row in ROLLED if row != "device"]


@pytest.fixture(scope="module")
def stage(operator: Environment, platform: PulumiStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Ready models side by side, on a node with one GPU and with volumes that may grow."""
    bench, directory = Bench(operator, "previews"), tmp_path_factory.mktemp("previews")
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bench.namespace}})
    set_gpus(bench, 1)
    set_growth(bench, allowed=True)
    bench.registry("PUT", MOVING, {"target": "laya:en"})
    bench.kubectl.apply(*(decision_model(name, bench.namespace, **spec) for name, spec in STARTED_WITH.items()))
    wait_until("the models to be Ready", lambda: all(map(is_ready, look(bench).values())), 300, every=2)
    bench.registry("PUT", MOVING, {"target": "laya:en-better"})
    with port_forward(bench.kubectl, REGISTRY, MANIFESTS_PORT, REGISTRY) as port:
        reader = write_reader_kubeconfig(bench, directory / "kubeconfig")
        yield Stage(bench=bench, stack=platform, directory=directory, reader=reader, proxy_port=port)
    bench.registry("DELETE", MOVING)
    set_growth(bench, allowed=False)
    set_gpus(bench, 0)
    bench.kubectl.delete("namespace", bench.namespace, "default", "--wait=false")


def set_gpus(bench: Bench, count: int) -> None:
    """Let the node claim to have GPUs, and images for them."""
    cluster, images = bench.environment.cluster, bench.environment.images
    cluster.load(images.runtime.path, (runtime_image(DEFAULT_VERSION, "cuda").reference,))
    resource = GPU.replace("/", "~1")
    patch = [
        {"op": "add", "path": f"/status/{field}/{resource}", "value": str(count)}
        for field in ("capacity", "allocatable")
    ]
    bench.kubectl.run("patch", "node", cluster.name, "--subresource=status", "--type=json", "-p", json.dumps(patch))


def set_growth(bench: Bench, *, allowed: bool) -> None:
    patch = json.dumps({"allowVolumeExpansion": allowed})
    bench.kubectl.run("patch", "storageclass", STORAGE_CLASS, "--type=merge", "-p", patch)


@pytest.fixture(scope="module")
def refusals(stage: Stage) -> Batch:
    """What the platform as it is deployed refuses."""
    edits = {row: {**SERVING, **spec} for row, (spec, _) in REFUSED.items()} | {INVALID: {**SERVING, "engine": "other"}}
    manifests = {
        row: stage.manifest(name, spec) for (row, spec), name in zip(edits.items(), STARTED_WITH, strict=False)
    }
    bench = stage.bench
    metadata = {"name": name_of(TAKEN), "namespace": bench.namespace}
    bench.kubectl.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    )
    manifests[TAKEN] = stage.manifest(name_of(TAKEN), SERVING)

    def ended(row: Row) -> bool:
        return row.told["refused"]["reason"] in {"Invalid", *reasons(row.after.model)}

    batch = stage.carry_out(manifests, ended)
    bench.kubectl.delete("decisionmodel", name_of(TAKEN), bench.namespace)
    # What is refused here must not begin once `spec.image` is permitted.
    bench.kubectl.apply(*(stage.manifest(name, spec) for name, spec in STARTED_WITH.items()))
    return batch


@pytest.fixture(scope="module")
def rollouts(stage: Stage, refusals: Batch) -> Iterator[Batch]:
    """What makes a new revision, with a reconciler that permits `spec.image`; it goes on running until the end."""
    assert refusals.told.code == 2
    bench = stage.bench
    tags = json.loads(bench.registry("GET", "/tags"))
    edits = {
        **NEW_REVISIONS,
        AT_ONCE: {field: value for edit in COMBINED.values() for field, value in edit.items()},
        PINNED: {"model": "laya:moving", "digest": tags["library/laya:en-better"]},
        FIRST: {"replicas": 2},
    }
    manifests = {row: stage.manifest(name_of(row), {**SERVING, **spec}) for row, spec in edits.items()}

    def give_gpu(told: Told) -> None:
        """Let the runtime of the candidate on the GPU find one."""
        selector = f"decisionmodel.io/revision={told.models['device']['after']['revision']}"

        def found() -> bool:
            with suppress(KubectlError):
                for pod in bench.kubectl.list("pods", bench.namespace, selector):
                    bench.runtime(pod["metadata"]["name"], {"gpu": "working"})
                    return True
            return False

        wait_until("the runtime of the candidate on the GPU", found, 120, every=1)

    with restarted_with(bench, "--allow-image-override"):
        yield stage.carry_out(manifests, comes_as_told, give_gpu, allowImageOverride=True)


@pytest.fixture(scope="module")
def in_place(stage: Stage, rollouts: Batch) -> Batch:
    """What changes the models that were rolled out, without a new revision; the first one is applied once more."""
    bench = stage.bench
    labels = {"decisionmodel.io/api-key": "true"}
    secret = {"name": "keys", "namespace": bench.namespace, "labels": labels}
    data = {"api-key": base64.b64encode(b"sesame").decode()}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": data})
    specs = {row.told["name"]: row.after.model["spec"] for row in rollouts.rows.values()}
    manifests = {
        row: stage.manifest(name, {**specs[name], **change})
        for (row, change), name in zip(IN_PLACE.items(), CHANGED_LATER, strict=False)
    }
    manifests["nothing"] = stage.manifest(name_of(FIRST), specs[name_of(FIRST)])
    return stage.carry_out(manifests, comes_as_told, allowImageOverride=True)


def is_ready(view: View) -> bool:
    """Whether a model is Ready on what is declared, with nothing under way."""
    model, status = view.model, view.model.get("status", {})
    if not is_observed(model) or phase(model) != "Ready" or {"candidateRevision", "previousRevision"} & {*status}:
        return False
    return bool(status["replicas"]["modelReady"] == model["spec"].get("replicas", 1) == len(view.pods))


def comes_as_told(row: Row) -> bool:
    """Whether a model is Ready, and its objects are as predicted."""
    return is_ready(row.after) and row.happened == predicted_in_json(row.told)


def reasons(model: Object) -> set[str]:
    return {each["reason"] for each in model.get("status", {}).get("conditions", ())}


# Refusals.


@pytest.mark.parametrize(("row", "reason"), [(row, reason) for row, (_, reason) in REFUSED.items()], ids=[*REFUSED])
def test_what_is_told_to_be_refused_leaves_what_serves_alone(refusals: Batch, row: str, reason: str) -> None:
    seen = refusals.rows[row]
    assert (seen.told["outcome"], seen.told["refused"]["reason"], seen.told["objects"]) == ("Refused", reason, [])
    assert reason in reasons(seen.after.model)
    assert phase(seen.after.model) == "Ready"
    assert seen.happened == set()
    assert seen.before is not None
    assert seen.after.pods == seen.before.pods


def test_what_the_api_server_does_not_take_is_told_to_be_refused(refusals: Batch) -> None:
    seen = refusals.rows[INVALID]
    assert (seen.told["outcome"], seen.told["refused"]["reason"]) == ("Refused", "Invalid")
    assert seen.told["refused"]["message"].startswith("spec.engine: ")
    assert "spec.engine: " in refusals.rejected
    assert seen.before == seen.after


def test_a_name_of_somebody_elses_object_is_told_to_be_refused(refusals: Batch) -> None:
    seen = refusals.rows[TAKEN]
    refused = {"reason": "ResourceConflict", "message": condition(seen.after.model, "Ready")["message"]}
    assert (seen.told["outcome"], seen.told["refused"]) == ("Refused", refused)
    assert condition(seen.after.model, "Ready")["reason"] == "ResourceConflict"


# New revisions.


@pytest.mark.parametrize("row", [*ROLLED, FIRST])
def test_a_new_revision_comes_as_told(stage: Stage, rollouts: Batch, row: str) -> None:
    seen = rollouts.rows[row]
    assert seen.told["outcome"] == "NewRevision"
    assert seen.told["after"] == named(seen.stable)
    if row == FIRST:
        assert (seen.before, seen.told["before"]) == (None, None)
    else:
        assert seen.before is not None
        assert seen.told["before"] == named(seen.before.model["status"]["stableRevision"])
        assert not seen.before.pods & seen.after.pods
    assert predicted_in_json(seen.told) == seen.happened
    deployment = f"deploy/{seen.told['name']}-{seen.stable['hash']}"
    stored = stage.bench.kubectl.run("exec", deployment, "-n", stage.bench.namespace, "--", "python3", "-c", STORED)
    assert seen.told["downloadBytes"] == int(stored)


def named(revision: Object) -> Object:
    """Return a revision of a status as a preview names it."""
    fields = ("model", "digest", "device", "image")
    named = {"revision": revision["hash"], **{field: revision[field] for field in fields}}
    return {**named, "runtimeVersion": revision.get("runtimeVersion", "")}


# In place.


@pytest.mark.parametrize("row", IN_PLACE)
def test_a_change_in_place_comes_as_told(in_place: Batch, row: str) -> None:
    seen = in_place.rows[row]
    assert seen.before is not None
    assert seen.told["outcome"] == "InPlace"
    assert seen.told["before"] == seen.told["after"] == named(seen.stable)
    assert seen.before.model["status"]["stableRevision"] == seen.stable
    assert seen.told["downloadBytes"] is None
    assert predicted_in_json(seen.told) == seen.happened
    replaced = seen.before.pods - seen.after.pods
    assert (seen.told["restart"], replaced) == (
        ("Outage", seen.before.pods) if row == "auth" else ("None", frozenset())
    )


@pytest.mark.parametrize("row", ["cache.size shrinks", "cache.storageClassName", "cache.accessModes"])
def test_a_cache_that_stays_as_it_is_is_told_in_the_conditions_words(in_place: Batch, row: str) -> None:
    seen = in_place.rows[row]
    degraded = condition(seen.after.model, "Degraded")
    assert degraded["reason"] == "CacheSpecImmutable"
    assert f"{degraded['reason']}: {degraded['message']}" in seen.told["notes"]


def test_a_manifest_that_is_applied_again_is_told_to_change_nothing(in_place: Batch) -> None:
    seen = in_place.rows["nothing"]
    assert (seen.told["outcome"], seen.told["fields"], seen.told["objects"]) == ("Nothing", [], [])
    assert seen.happened == set()
    assert seen.before is not None
    assert seen.before.pods == seen.after.pods


# Reading only.


@pytest.mark.parametrize(
    ("batch", "code", "tags"),
    [("refusals", 2, {"en", "missing"}), ("rollouts", 1, {"en", "en-better", "moving"}), ("in_place", 1, set())],
)
def test_a_preview_only_reads_and_asks_for_a_tag_once(
    request: pytest.FixtureRequest, batch: str, code: int, tags: set[str]
) -> None:
    seen: Batch = request.getfixturevalue(batch)
    assert (seen.told.code, bool(seen.rejected)) == (code, batch == "refusals")
    assert seen.after ^ seen.before == frozenset()
    assert sorted(seen.asked) == sorted(f"/v2/library/laya/manifests/{tag}" for tag in tags)


@pytest.mark.parametrize("batch", ["refusals", "rollouts", "in_place"])
def test_the_documented_rights_suffice(request: pytest.FixtureRequest, batch: str) -> None:
    seen: Batch = request.getfixturevalue(batch)
    assert seen.told_reader == seen.told


def test_without_a_stack_the_live_reconciler_and_the_registry_inside_are_asked(stage: Stage) -> None:
    """From outside the cluster, where the registry's name means nothing, and by an account that may use the proxy."""
    bench = stage.bench
    dmctl = Dmctl(directory=stage.directory, proxy_port=0)
    told = dmctl.preview(bench.kubectl.kubeconfig, [stage.manifest("inside", SERVING)], stack=None)
    assert told.code == 1
    after = told.models["inside"]["after"]
    assert after["digest"] == json.loads(bench.registry("GET", "/tags"))["library/laya:en"]
    assert told.models["inside"]["downloadBytes"]
