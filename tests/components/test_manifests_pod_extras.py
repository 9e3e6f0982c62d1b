"""What Pods get besides: beside ours, never in place of ours, and nothing where nothing is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.desired import DesiredStack, PodExtras
from components.manifests import render
from tests.components.stacks import LABELS, SERVING, rendered, stack

EXTRAS = PodExtras(
    labels={"team": "a", "decisionmodel.io/revision": "ours"},
    annotations={"sidecar.istio.io/inject": "false", "decisionmodel.io/apikey-checksum": "ours"},
    image_pull_secrets=("first", "second"),
    record='{"labels":{"team":"a"}}',
)
KEYED = replace(SERVING, template_api_key_checksum="aa")


def with_extras(extras: PodExtras) -> DesiredStack:
    plain = stack(serving=KEYED)
    return replace(plain, revisions=tuple(replace(each, pods=extras) for each in plain.revisions))


def template(kind: str, extras: PodExtras = EXTRAS) -> Any:
    return rendered(with_extras(extras), kind)["spec"]["template"]


def test_nothing_besides_changes_nothing() -> None:
    assert render(with_extras(PodExtras())) == render(stack(serving=KEYED))


def test_labels_stand_beside_ours_and_never_for_them() -> None:
    deployment, job = (rendered(with_extras(EXTRAS), kind) for kind in ("Deployment", "Job"))
    for labelled in (deployment, deployment["spec"]["template"]):
        assert labelled["metadata"]["labels"] == {"team": "a", **LABELS}
    assert deployment["spec"]["selector"] == {"matchLabels": LABELS}
    assert job["metadata"]["labels"] == {"team": "a", **LABELS}
    assert job["spec"]["template"]["metadata"]["labels"]["team"] == "a"
    # No Service sends a prefetch Pod traffic, whatever its labels are said to be.
    assert job["spec"]["template"]["metadata"]["labels"].items() & LABELS.items() != LABELS.items()


def test_annotations_are_the_pods_alone() -> None:
    assert template("Job")["metadata"]["annotations"] == EXTRAS.annotations
    assert template("Deployment")["metadata"]["annotations"] == {
        "sidecar.istio.io/inject": "false",
        "decisionmodel.io/apikey-checksum": "aa",
    }
    assert "sidecar.istio.io/inject" not in rendered(with_extras(EXTRAS), "Deployment")["metadata"]["annotations"]


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_pull_secrets_are_named(kind: str) -> None:
    assert template(kind)["spec"]["imagePullSecrets"] == [{"name": "first"}, {"name": "second"}]
    assert "imagePullSecrets" not in template(kind, PodExtras())["spec"]


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_who_pods_run_as_can_be_left_to_the_cluster(kind: str) -> None:
    assert template(kind, PodExtras(cluster_identity=True))["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_what_they_were_given_is_kept_on_the_deployment() -> None:
    annotations = rendered(with_extras(EXTRAS), "Deployment")["metadata"]["annotations"]
    assert annotations["decisionmodel.io/pods"] == EXTRAS.record
    assert "decisionmodel.io/pods" not in rendered(stack(), "Deployment")["metadata"]["annotations"]
