"""From a plan to a desired stack: what runs keeps what it was given, and checksums roll Pods only on a rotation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.decisionmodel import DecisionModel
from api.status import RevisionStatus
from components.desired import DesiredRevision, Placement
from components.manifests import render
from components.program import ProviderSettings
from reconciler.controller.credentials import ApiKey
from reconciler.controller.observation import Children
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.revisions import ChosenImage, choose_image, wanted_revision
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.rollout import RevisionPlan, StackPlan

SETTINGS = ControllerSettings(registries=RegistryPolicy(), provider=ProviderSettings(cluster_identifier="tests"))
AROUND = Surroundings(settings=SETTINGS, children=Children())
KEY = ApiKey(value="k", checksum="c" * 16, legacy_checksum="l" * 16)
KEYED = {"auth": {"apiKeySecretRef": {"name": "key", "key": "api-key"}}}


def model(**spec: Any) -> DecisionModel:
    metadata = {"name": "router", "namespace": "default", "uid": "5f0c1a52"}
    return DecisionModel.model_validate({"metadata": metadata, "spec": {"model": "laya:en", **spec}})


def revision(of: DecisionModel, settings: ControllerSettings = SETTINGS) -> RevisionStatus:
    image = choose_image(of.spec, None, settings)
    assert isinstance(image, ChosenImage)
    return wanted_revision(of.spec, "a" * 64, image, settings)


def desired(
    of: DecisionModel, around: Surroundings = AROUND, recorded: RevisionStatus | None = None
) -> DesiredRevision:
    plan = RevisionPlan(revision=recorded or revision(of), serve=True)
    (only,) = desired_stack(of, StackPlan(revisions=(plan,)), around).revisions
    return only


def running(of: DecisionModel, around: Surroundings = AROUND) -> Children:
    """The objects that the model's revision was rendered to, as live ones."""
    stack = desired_stack(of, StackPlan(revisions=(RevisionPlan(revision=revision(of), serve=True),)), around)
    by_kind: dict[str, list[Any]] = {}
    for manifest in render(stack):
        obj = dict(manifest.object)
        obj["metadata"] = {**obj["metadata"], "uid": manifest.kind}
        by_kind.setdefault(manifest.kind, []).append(obj)
    return Children(
        claims=tuple(by_kind["PersistentVolumeClaim"]),
        jobs=tuple(by_kind["Job"]),
        deployments=tuple(by_kind["Deployment"]),
    )


def test_rendering_what_runs_again_changes_nothing() -> None:
    of = model(resources={"limits": {"cpu": "2"}}, scheduling={"nodeSelector": {"disk": "ssd"}}, replicas=2)
    first = desired_stack(of, StackPlan(revisions=(RevisionPlan(revision=revision(of), serve=True),)), AROUND)
    around = replace(AROUND, children=running(of))
    again = desired_stack(of, StackPlan(revisions=(RevisionPlan(revision=revision(of), serve=True),)), around)
    assert [each.object for each in render(again)] == [each.object for each in render(first)]


def test_an_edit_meant_for_the_next_revision_leaves_the_running_one_as_it_is() -> None:
    before = model(
        scheduling={"nodeSelector": {"disk": "ssd"}}, cache={"size": "10Gi", "accessModes": ["ReadWriteMany"]}
    )
    after = model(scheduling={"nodeSelector": {"disk": "hdd"}}, cache={"size": "10Gi"}, replicas=2)
    frozen = desired(after, replace(AROUND, children=running(before)), revision(before))
    assert frozen.serving is not None
    assert frozen.serving.placement.node_selector == {"disk": "ssd"}
    assert frozen.store.access_modes == ("ReadWriteMany",)
    assert frozen.serving.replicas == 2, "but replicas follow the spec at once"


def test_another_registry_of_the_operator_does_not_roll_what_serves() -> None:
    of = model()
    elsewhere = replace(SETTINGS, registries=RegistryPolicy(registry_url="https://mirror.example"))
    before = desired(of)
    after = desired(of, Surroundings(settings=elsewhere, children=running(of)), revision(of))
    assert before.serving is not None
    assert after.serving is not None
    assert after.serving.environment == before.serving.environment


def test_a_placement_that_is_not_the_revisions_is_not_guessed() -> None:
    recorded = revision(model(scheduling={"nodeSelector": {"disk": "ssd"}}))
    rendered = desired(model(scheduling={"nodeSelector": {"disk": "hdd"}}), AROUND, recorded)
    assert rendered.serving is not None
    assert rendered.serving.placement == Placement()


def checksums(rendered: DesiredRevision) -> tuple[str | None, str | None]:
    assert rendered.serving is not None
    return rendered.serving.api_key_checksum, rendered.serving.template_api_key_checksum


def test_the_checksum_of_the_key_reaches_the_template_when_it_is_made_and_when_it_rotates() -> None:
    of = model(**KEYED)
    keyed = replace(AROUND, api_key=KEY)
    assert checksums(desired(of)) == (None, None)
    assert checksums(desired(of, keyed)) == ("c" * 16, "c" * 16)

    live = running(of, keyed)
    assert checksums(desired(of, replace(keyed, children=live))) == ("c" * 16, "c" * 16)
    rotated = replace(KEY, checksum="d" * 16)
    assert checksums(desired(of, replace(AROUND, children=live, api_key=rotated))) == ("d" * 16, "d" * 16)
    assert checksums(desired(of, replace(AROUND, children=live))) == ("c" * 16, "c" * 16), "unreadable: as before"


def test_the_first_sight_of_a_key_is_recorded_without_rolling() -> None:
    of = model(**KEYED)
    live = running(of)
    assert checksums(desired(of, replace(AROUND, children=live, api_key=KEY))) == ("c" * 16, None)


def test_a_job_is_seeded_when_it_is_made_and_stays_what_it_was() -> None:
    of = model(rollout={"timeouts": {"caching": "5m"}})
    name = revision(of).hash
    seeded = desired(of, replace(AROUND, seeded=frozenset({name})))
    assert seeded.prefetch is not None
    assert (seeded.prefetch.seeded, seeded.prefetch.deadline_seconds) == (True, 300)

    live = running(of, replace(AROUND, seeded=frozenset({name})))
    later = desired(model(rollout={"timeouts": {"caching": "1h"}}), replace(AROUND, children=live))
    assert later.prefetch is not None
    assert (later.prefetch.seeded, later.prefetch.deadline_seconds) == (True, 300)


def test_a_job_of_an_earlier_version_keeps_its_failure_policy() -> None:
    of, live = model(), running(model())
    again = desired(of, replace(AROUND, children=live))
    (job,) = live.jobs
    job["spec"]["podFailurePolicy"]["rules"] = [
        rule for rule in job["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"
    ]
    earlier = desired(of, replace(AROUND, children=live))
    assert again.prefetch is not None
    assert earlier.prefetch is not None
    assert (again.prefetch.ignores_disruptions, earlier.prefetch.ignores_disruptions) == (True, False)


def test_a_key_shows_in_no_representation() -> None:
    assert "secret-value" not in repr(replace(AROUND, api_key=replace(KEY, value="secret-value")))


PODS = {"labels": {"team": "a"}, "imagePullSecrets": [{"name": "pull"}], "identity": "Cluster"}


def test_what_pods_get_besides_is_part_of_their_revision_and_stays_with_it() -> None:
    before = model(pods=PODS)
    recorded = revision(before)
    assert recorded.hash != revision(model()).hash
    assert desired(before).pods.labels == {"team": "a"}

    around = replace(AROUND, children=running(before))
    for after in (model(), model(pods={"labels": {"team": "b"}})):
        assert desired(after, around, recorded) == desired(before, around, recorded), (
            "the edit is for the next revision"
        )


def test_without_the_record_of_what_pods_get_besides_they_stay_as_they_are() -> None:
    before = model(pods=PODS)
    children = running(before)
    annotations = children.deployments[0]["metadata"]["annotations"]
    for record in ("", "no JSON", '{"labels":{"team":"forged"}}'):
        annotations["decisionmodel.io/pods"] = record
        frozen = desired(model(), replace(AROUND, children=children), revision(before))
        assert frozen.serving is not None
        assert frozen.serving.template is not None
        assert frozen.serving.template["spec"] == children.deployments[0]["spec"]["template"]["spec"]
        assert frozen.serving.template["metadata"]["labels"]["team"] == "a"


CUDA = {"device": "cuda"}
POD = {
    "metadata": {
        "name": "p",
        "uid": "p",
        "labels": {"decisionmodel.io/revision": "0" * 16},
        "ownerReferences": [{"uid": "rs", "controller": True}],
    }
}


def serves(of: DecisionModel) -> Children:
    """Another revision with a Pod."""
    reference = [{"uid": of.metadata.uid, "controller": True}]
    deployment = {"metadata": {"name": "d", "uid": "d", "ownerReferences": reference}}
    replica_set = {"metadata": {"name": "rs", "uid": "rs", "ownerReferences": [{"uid": "d", "controller": True}]}}
    return Children(deployments=(deployment,), replica_sets=(replica_set,), pods=(POD,))


@pytest.mark.parametrize(
    ("spec", "beside_another", "place"),
    [
        (CUDA, False, "a GPU"),
        (CUDA, True, "a GPU"),
        ({**CUDA, "cache": {"accessModes": ["ReadWriteMany"]}}, False, "anywhere"),
        ({}, False, "anywhere"),
        ({**CUDA, "rollout": {"strategy": "Recreate"}}, False, "a GPU"),
        # The only GPU may be that of the revision that will be stopped.
        ({**CUDA, "rollout": {"strategy": "Recreate"}}, True, "its Pods"),
    ],
)
def test_where_a_download_goes_that_binds_the_volume(spec: dict[str, Any], beside_another: bool, place: str) -> None:
    of = model(**spec)
    around = replace(AROUND, children=serves(of)) if beside_another else AROUND
    job = desired(of, around).prefetch
    assert job is not None
    gpu, drawn = "nvidia.com/gpu" in job.resources["limits"], job.placement.affinity is not None
    assert (gpu, drawn) == {"anywhere": (False, False), "a GPU": (True, False), "its Pods": (False, True)}[place]
