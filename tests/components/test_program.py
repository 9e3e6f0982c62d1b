"""What the program declares to the engine: resources, inputs, dependencies and options, seen by a mock monitor."""

from __future__ import annotations

import functools
import pickle
from dataclasses import replace
from typing import Any

import pytest
from pulumi.runtime import Mocks, set_mocks
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs

from components.desired import DesiredRevision, DesiredStack
from components.errors import InvalidStackError
from components.manifests import render
from components.program import ProviderSettings, converge
from tests.components.mocked import run_mocked
from tests.components.stacks import OWNER, PREFETCH, REVISION, SERVING, STORE, stack, thawed

SETTINGS = ProviderSettings(kubeconfig="/etc/kube/config", cluster_identifier="production")
OTHER = "f" * 16

PARENTS = "decisionmodel:index:Model$decisionmodel:index:Revision"
PREFIX = "urn:pulumi:stack::project::"
CLAIM = f"{PREFIX}{PARENTS}$kubernetes:core/v1:PersistentVolumeClaim::laya-store-{REVISION}"
JOB = f"{PREFIX}{PARENTS}$kubernetes:batch/v1:Job::laya-pf-{REVISION}"
DEPLOYMENT = f"{PREFIX}{PARENTS}$kubernetes:apps/v1:Deployment::laya-{REVISION}"
BUDGET = f"{PREFIX}{PARENTS}$kubernetes:policy/v1:PodDisruptionBudget::laya-{REVISION}"
SERVICE = f"{PREFIX}decisionmodel:index:Model$kubernetes:core/v1:Service::laya"
REVISION_COMPONENT = f"{PREFIX}{PARENTS}::laya-{REVISION}"
MODEL_COMPONENT = f"{PREFIX}decisionmodel:index:Model::laya"
PROVIDER = f"{PREFIX}pulumi:providers:kubernetes::kubernetes"


class EchoingMocks(Mocks):
    """Makes every resource what its inputs say, and keeps those by type and name."""

    def __init__(self) -> None:
        self.inputs: dict[tuple[str, str], dict[str, Any]] = {}

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"the program calls nothing, but called {args.token}")

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.inputs[args.typ, args.name] = args.inputs
        return f"id-of-{args.name}", args.inputs


class RecordingMonitor(MockMonitor):
    """The mock monitor with the URNs of the real engine, keeping every request."""

    def __init__(self) -> None:
        super().__init__(EchoingMocks())
        self.requests: dict[str, Any] = {}
        self.finished: set[str] = set()

    @property
    def inputs(self) -> dict[tuple[str, str], dict[str, Any]]:
        return self.mocks.inputs  # type: ignore[attr-defined,no-any-return]  # always EchoingMocks

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        types = parent.split("::")[2] if parent and not parent.startswith(f"{PREFIX}pulumi:pulumi:Stack") else ""
        return f"{PREFIX}{types}{'$' if types else ''}{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 -- gRPC's name
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type != "pulumi:pulumi:Stack":
            self.requests[urn] = request
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # so is the SDK

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 -- gRPC's name
        self.finished.add(request.urn)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]  # so is the SDK


def run(monitor: RecordingMonitor, desired: DesiredStack, settings: ProviderSettings = SETTINGS) -> None:
    """Run the program as a worker does: unpickled, in a loop of its own."""
    program = pickle.loads(pickle.dumps(functools.partial(converge, desired, settings)))  # noqa: S301 -- our own bytes
    run_mocked(lambda: set_mocks(monitor.mocks, monitor=monitor), program)


def declare(desired: DesiredStack, settings: ProviderSettings = SETTINGS) -> RecordingMonitor:
    monitor = RecordingMonitor()
    run(monitor, desired, settings)
    return monitor


@pytest.fixture(scope="module")
def declared() -> RecordingMonitor:
    return declare(stack())


def test_the_urns_are_stable(declared: RecordingMonitor) -> None:
    assert set(declared.requests) == {
        PROVIDER,
        MODEL_COMPONENT,
        REVISION_COMPONENT,
        CLAIM,
        JOB,
        DEPLOYMENT,
        BUDGET,
        SERVICE,
    }


def test_the_inputs_are_the_manifests_unchanged(declared: RecordingMonitor) -> None:
    inputs = {(each["kind"], name): each for (_, name), each in declared.inputs.items() if "kind" in each}
    assert inputs == {manifest.key: thawed(manifest.object) for manifest in render(stack())}


def test_each_object_waits_for_what_it_needs(declared: RecordingMonitor) -> None:
    urns = (CLAIM, JOB, DEPLOYMENT, BUDGET, SERVICE)
    assert {urn: set(declared.requests[urn].dependencies) for urn in urns} == {
        CLAIM: set(),
        JOB: {CLAIM},
        DEPLOYMENT: {CLAIM, JOB},
        BUDGET: {DEPLOYMENT},
        SERVICE: {CLAIM, JOB, DEPLOYMENT, BUDGET},
    }


def test_stores_and_jobs_keep_what_they_were_created_with(declared: RecordingMonitor) -> None:
    ignored = {urn: list(request.ignoreChanges) for urn, request in declared.requests.items() if request.ignoreChanges}
    assert ignored == {CLAIM: ["spec.accessModes", "spec.storageClassName"], JOB: ["spec"]}


def test_nothing_is_protected_forced_or_kept(declared: RecordingMonitor) -> None:
    for request in declared.requests.values():
        assert not request.protect
        assert not request.retainOnDelete
        assert not request.replaceOnChanges


def test_the_provider_is_explicit_and_used_everywhere(declared: RecordingMonitor) -> None:
    assert declared.inputs["pulumi:providers:kubernetes", "kubernetes"] == {
        "namespace": "team-a",
        "kubeconfig": "/etc/kube/config",
        "clusterIdentifier": "production",
        "enableConfigMapMutable": "true",
    }
    for urn in (CLAIM, JOB, DEPLOYMENT, BUDGET, SERVICE):
        assert declared.requests[urn].provider == f"{PROVIDER}::id-of-kubernetes"


def test_components_say_when_they_are_complete(declared: RecordingMonitor) -> None:
    assert {MODEL_COMPONENT, REVISION_COMPONENT} <= declared.finished


def test_in_a_cluster_no_kubeconfig_is_named() -> None:
    declared = declare(stack(), replace(SETTINGS, kubeconfig=None))
    inputs = declared.inputs["pulumi:providers:kubernetes", "kubernetes"]
    assert inputs.keys() == {"namespace", "clusterIdentifier", "enableConfigMapMutable"}


def test_a_candidate_stands_beside_the_stable_and_only_the_selected_one_gets_traffic() -> None:
    candidate = DesiredRevision(hash=OTHER, store=STORE, prefetch=PREFETCH, serving=SERVING)
    both = declare(replace(stack(), revisions=(*stack().revisions, candidate)))
    assert f"{PREFIX}{PARENTS}$kubernetes:apps/v1:Deployment::laya-{OTHER}" in both.requests
    assert not any(OTHER in urn for urn in both.requests[SERVICE].dependencies)


def test_an_empty_stack_declares_only_the_model() -> None:
    assert set(declare(DesiredStack(owner=OWNER)).requests) == {PROVIDER, MODEL_COMPONENT}


def test_a_stack_that_cannot_be_rendered_declares_nothing() -> None:
    monitor = RecordingMonitor()
    with pytest.raises(InvalidStackError):
        run(monitor, replace(stack(), selected=OTHER))
    assert monitor.requests == {}
