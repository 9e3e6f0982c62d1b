"""Names, labels and ownership (spec sections 3.2 and 3.3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import names
from components.desired import Owner
from components.errors import InvalidNameError
from tests.components.stacks import OWNER, REVISION, model_names, owners, revisions

LEGACY = "0123456789"
LABEL_VALUE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (names.service("laya"), "laya"),
        (names.deployment("laya", REVISION), f"laya-{REVISION}"),
        (names.disruption_budget("laya", REVISION), f"laya-{REVISION}"),
        (names.store("laya", REVISION), f"laya-store-{REVISION}"),
        (names.store("laya", "0123456789", shared=True), "laya-store"),
        (names.prefetch_job("laya", REVISION), f"laya-pf-{REVISION}"),
        (names.prefetch_job("laya", LEGACY), f"laya-prefetch-{LEGACY}"),
        (names.manifest_config_map("laya", REVISION), f"laya-manifest-{REVISION}"),
        (names.stack(OWNER), "team-a.laya.6f1c2a34"),
    ],
)
def test_names_are_those_of_the_specification(name: str, expected: str) -> None:
    assert name == expected


@given(model_names, revisions)
def test_every_name_is_valid_for_its_kind(model: str, revision: str) -> None:
    # Names of Jobs and Services end up in label values; the other kinds allow subdomains.
    for name in (names.service(model), names.prefetch_job(model, revision), names.prefetch_job(model, revision[:10])):
        assert LABEL_VALUE.fullmatch(name)
    for name in (
        names.deployment(model, revision),
        names.store(model, revision),
        names.store(model, revision, shared=True),
        names.manifest_config_map(model, revision),
    ):
        assert SUBDOMAIN.fullmatch(name)


def test_the_longest_model_name_fills_the_names_of_jobs_exactly() -> None:
    longest = "m" * names.MODEL_NAME_LIMIT
    assert len(names.prefetch_job(longest, REVISION)) == 63
    assert len(names.prefetch_job(longest, LEGACY)) == 63


@pytest.mark.parametrize("model", ["", "m" * 44, "Laya", "1laya", "laya-", "la.ya", "laya\n", "../laya"])
def test_what_is_no_model_name_names_nothing(model: str) -> None:
    with pytest.raises(InvalidNameError):
        names.deployment(model, REVISION)


@pytest.mark.parametrize(
    "revision", ["", "0123", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdefa", "../../../.."]
)
def test_what_is_no_revision_names_nothing(revision: str) -> None:
    for name in (names.deployment, names.store, names.prefetch_job, names.manifest_config_map):
        with pytest.raises(InvalidNameError):
            name("laya", revision)


@given(owners)
def test_stack_names_suit_the_engine_and_keep_their_three_parts(owner: Owner) -> None:
    name = names.stack(owner)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name)
    _, model, uid = name.split(".")
    assert (model, uid) == (owner.name, owner.uid[:8])


@given(st.text("ab-", min_size=14, max_size=14))
def test_shortened_stack_names_stay_apart(end: str) -> None:
    def owner(namespace: str) -> Owner:
        return Owner(namespace=namespace, name="m" * 43, uid=OWNER.uid)

    one, other = owner("n" * 48 + end + "x"), owner("n" * 48 + end + "y")
    assert len(names.stack(one)) == 100
    assert names.stack(one) != names.stack(other)


@pytest.mark.parametrize(
    ("namespace", "uid"), [("a.b", OWNER.uid), ("", OWNER.uid), ("team-a", ""), ("team-a", "../../..")]
)
def test_stacks_are_named_after_valid_owners_only(namespace: str, uid: str) -> None:
    with pytest.raises(InvalidNameError):
        names.stack(Owner(namespace=namespace, name="laya", uid=uid))


def test_a_prefetch_pod_never_matches_the_selector_of_its_revision() -> None:
    pod = names.prefetch_pod_labels("laya", REVISION)
    selector = names.revision_labels("laya", REVISION)
    assert pod == {"decisionmodel.io/name": "laya", "decisionmodel.io/prefetch-revision": REVISION}
    assert not selector.items() <= pod.items()


def test_the_model_controls_its_children() -> None:
    assert names.owner_reference(OWNER) == {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "name": "laya",
        "uid": OWNER.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


@pytest.mark.parametrize("namespace", ["shop", "n" * 63], ids=["short", "cut"])
def test_a_stack_is_in_its_models_namespace_and_in_no_other(namespace: str) -> None:
    stack = names.stack(Owner(namespace=namespace, name="m" * 43, uid="1a2b3c4d-0000"))
    assert names.is_stack_in(stack, ())
    assert names.is_stack_in(stack, ("bank", namespace))
    assert not names.is_stack_in(stack, ("bank", f"{namespace[:-1]}x", f"{namespace}ping"))
