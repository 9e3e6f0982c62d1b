"""An environment over its whole life: waits for its models, is taken off, comes back, and is installed without Pulumi.

Every test starts from, and ends with, whatever the one before left; the last step brings the platform of `dev` back for
the tests of other files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from components.configuration import Metrics
from components.platform.metadata import MANAGER_NAME, METRICS_SERVICE_NAME, SYSTEM_NAMESPACE
from tests.cluster.observing import decision_model
from tools.deploy import DeployError, PulumiStack
from tools.environment import Environment
from tools.install_yaml import install_yaml, stack_configuration
from tools.kubectl import Kubectl, wait_until
from tools.observer import Asking, condition, wait_until_served

pytestmark = pytest.mark.cluster

MODEL = "support-router"
HANDED_OVER = ("--server-side", "--force-conflicts", "--field-manager=decisionmodel-platform")
DEFINITION = "decisionmodels.decisionmodel.io"

# The status of one scrape, by the token that is read from standard input, from inside the reconciler's Pod.
SCRAPE = """\
import ssl, sys, urllib.error, urllib.request
token = sys.stdin.read().strip()
headers = {"Authorization": "Bearer " + token} if token else {}
request = urllib.request.Request("https://127.0.0.1:8443/metrics", headers=headers)
try:
    with urllib.request.urlopen(request, timeout=10, context=ssl._create_unverified_context()) as answer:
        print(answer.status, b"controller_runtime_reconcile_total" in answer.read())
except urllib.error.HTTPError as error:
    print(error.code, False)
"""


@pytest.fixture(scope="module")
def stack(platform: PulumiStack, environment: Environment) -> Iterator[PulumiStack]:
    """The environment `dev`, as it was before and is again after these tests."""
    yield platform
    platform.up(environment.images.reconciler.name)


def configure(stack: PulumiStack, **values: Any) -> None:
    """Set keys, as a person does; double underscores stand for dots."""
    for key, value in values.items():
        path = f"decisionmodel:{key.replace('__', '.')}"
        text = value if isinstance(value, str) else json.dumps(value)
        stack.pulumi("config", "set", "--path", path, text, f"--stack={stack.stack}")


def update(stack: PulumiStack) -> str:
    """Apply what is configured now; the cluster is looked at first, since it was changed by hand."""
    return stack.pulumi("up", f"--stack={stack.stack}", "--yes", "--skip-preview", "--refresh", "--suppress-outputs")


def uid(kubectl: Kubectl, kind: str, name: str, namespace: str = "default") -> str:
    """The identity of an object, empty when there is none."""
    found = kubectl.get(kind, name, namespace)
    return str(found["metadata"]["uid"]) if found else ""


def is_ready(kubectl: Kubectl, name: str = MODEL) -> bool:
    """Whether a model is ready: the environment's, if no other is named."""
    found = kubectl.get("decisionmodel", name) or {}
    return str(found.get("status", {}).get("phase")) == "Ready"


def serving_pods(kubectl: Kubectl) -> set[str]:
    """The Pods behind the model's Service."""
    return {
        pod["metadata"]["uid"]
        for pod in kubectl.list("pods", selector=f"decisionmodel.io/name={MODEL}")
        if pod["status"]["phase"] == "Running"
    }


def manager_container(kubectl: Kubectl) -> dict[str, Any]:
    """The reconciler's container, as it is declared in the cluster now."""
    live = kubectl.get("deployment", MANAGER_NAME, SYSTEM_NAMESPACE) or {}
    container: dict[str, Any] = live["spec"]["template"]["spec"]["containers"][0]
    return container


def test_an_update_that_may_not_wait_long_enough_fails_with_the_condition(stack: PulumiStack, kubectl: Kubectl) -> None:
    kubectl.delete("decisionmodel", MODEL)
    wait_until("its Pods to end", lambda: not kubectl.list("pods", selector=f"decisionmodel.io/name={MODEL}"), 120)
    configure(stack, waitForModels__enabled=True, waitForModels__timeoutSeconds=1)

    with pytest.raises(DeployError, match=rf"not ready within 1 s:\s+DecisionModel default/{MODEL}: ") as failure:
        update(stack)
    assert "Traceback" not in str(failure.value)


def test_an_update_ends_when_the_models_are_ready(stack: PulumiStack, kubectl: Kubectl) -> None:
    configure(stack, waitForModels__timeoutSeconds=180)

    update(stack)

    assert is_ready(kubectl)


def test_what_is_retained_survives_destroy_and_is_taken_over_again(stack: PulumiStack, kubectl: Kubectl) -> None:
    configure(stack, retain__models=True, retain__state=True)
    update(stack)
    claim = f"{SYSTEM_NAMESPACE.removesuffix('-system')}-state"
    kept = {
        ("crd", DEFINITION): uid(kubectl, "crd", DEFINITION),
        ("decisionmodel", MODEL): uid(kubectl, "decisionmodel", MODEL),
        ("namespace", SYSTEM_NAMESPACE): uid(kubectl, "namespace", SYSTEM_NAMESPACE),
    }
    state = uid(kubectl, "pvc", claim, SYSTEM_NAMESPACE)
    serving = serving_pods(kubectl)
    assert all(kept.values())
    assert state
    assert serving

    stack.destroy()
    assert kubectl.get("deployment", MANAGER_NAME, SYSTEM_NAMESPACE) is None
    assert {key: uid(kubectl, *key) for key in kept} == kept

    update(stack)
    assert {key: uid(kubectl, *key) for key in kept} == kept
    assert uid(kubectl, "pvc", claim, SYSTEM_NAMESPACE) == state
    assert serving_pods(kubectl) == serving
    stack.pulumi("preview", f"--stack={stack.stack}", "--expect-no-changes")


def definition(kind: str) -> dict[str, Any]:
    """A definition of what a Prometheus operator brings, which takes any spec."""
    plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_an_upgrade_changes_the_reconciler_and_no_model(stack: PulumiStack, kubectl: Kubectl) -> None:
    serving = serving_pods(kubectl)
    kubectl.apply(definition("ServiceMonitor"), definition("PrometheusRule"))
    for definition_ in kubectl.list("crd"):
        wait_until_served(kubectl, definition_["metadata"]["name"])
    configure(
        stack,
        manager__maxConcurrentReconciles=3,
        metrics__serviceMonitor__enabled=True,
        prometheusRule__enabled=True,
        grafanaDashboard__enabled=True,
        networkPolicies__enabled=True,
        **{"networkPolicies__namespaces[0]": "default"},
    )

    update(stack)

    assert len(kubectl.list("servicemonitor", SYSTEM_NAMESPACE)) == 1
    assert len(kubectl.list("prometheusrule", SYSTEM_NAMESPACE)) == 1
    assert len(kubectl.list("networkpolicy", "default")) == 2
    assert kubectl.list("configmap", SYSTEM_NAMESPACE, "grafana_dashboard=1")

    deployment = kubectl.get("deployment", MANAGER_NAME, SYSTEM_NAMESPACE)
    assert deployment is not None
    assert deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
    assert "--max-concurrent-reconciles=3" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert serving_pods(kubectl) == serving


def test_an_update_puts_back_what_was_changed_by_hand(stack: PulumiStack, kubectl: Kubectl) -> None:
    """A person's `kubectl` is another field manager, and nothing of what it did is in the engine's state."""
    deployment = (f"deployment/{MANAGER_NAME}", "-n", SYSTEM_NAMESPACE)
    serving, before = serving_pods(kubectl), uid(kubectl, "deployment", MANAGER_NAME, SYSTEM_NAMESPACE)
    kubectl.run("scale", *deployment, "--replicas=0")
    kubectl.run("set", "env", *deployment, "HOME=/nowhere")
    configure(stack, manager__maxConcurrentReconciles=4)

    stack.pulumi("up", f"--stack={stack.stack}", "--yes", "--skip-preview", "--suppress-outputs")

    live = kubectl.get("deployment", MANAGER_NAME, SYSTEM_NAMESPACE) or {}
    assert live["metadata"]["uid"] == before
    assert live["status"]["availableReplicas"] == 1
    assert {"name": "HOME", "value": "/nowhere"} not in manager_container(kubectl)["env"]
    assert serving_pods(kubectl) == serving


def test_an_environments_rules_are_enforced_by_its_reconciler(stack: PulumiStack, kubectl: Kubectl) -> None:
    serving = serving_pods(kubectl)
    configure(stack, policy__file="policy.yaml")
    update(stack)

    small = decision_model("small", "default", "laya:en", cache={"size": "1Mi"})
    kubectl.apply(small)
    refused = wait_until(
        "the refusal",
        lambda: (
            found
            if condition(found := kubectl.get("decisionmodel", "small") or {}, "Ready").get("reason")
            == "PolicyViolation"
            else None
        ),
        60,
    )
    assert "cache-holds-model" in condition(refused, "Ready")["message"]
    assert not kubectl.list("pods,pvc,jobs", selector="decisionmodel.io/name=small")
    kubectl.delete("decisionmodel", "small")
    assert is_ready(kubectl)
    assert serving_pods(kubectl) == serving


def test_what_is_not_retained_goes_with_all_that_served(stack: PulumiStack, kubectl: Kubectl) -> None:
    configure(stack, retain__models=False, retain__state=False)
    update(stack)

    stack.destroy()

    assert not uid(kubectl, "namespace", SYSTEM_NAMESPACE)
    assert not uid(kubectl, "decisionmodel", MODEL)
    assert uid(kubectl, "crd", DEFINITION)
    wait_until(
        "its objects to be collected",
        lambda: not kubectl.list("pods,pvc,services,jobs", selector=f"decisionmodel.io/name={MODEL}"),
        120,
    )


@pytest.fixture(scope="module")
def installed(stack: PulumiStack, environment: Environment, kubectl: Kubectl) -> Iterator[str]:
    """The platform from one file, with metrics as they are by default; taken off with the same file."""
    dev = stack_configuration(stack.stack, environment.images.reconciler.name)
    manager = dev.manager.model_copy(update={"metrics_bind_address": None})
    text = install_yaml(dev.model_copy(update={"manager": manager, "metrics": Metrics()}))
    # Over another manager's objects `kubectl apply` would not know what to take out.
    stack.destroy()
    kubectl.run("apply", "-f", "-", stdin=text)
    yield text
    kubectl.run("delete", "-f", "-", "--ignore-not-found", stdin=text, timeout=180)


def test_one_file_installs_it_without_pulumi(installed: str, kubectl: Kubectl) -> None:
    kubectl.run("rollout", "status", f"deployment/{MANAGER_NAME}", "-n", SYSTEM_NAMESPACE, "--timeout=90s", timeout=100)

    assert " configured" not in kubectl.run("apply", "-f", "-", stdin=installed)


def test_metrics_are_for_accounts_that_may_get_them(installed: str, kubectl: Kubectl) -> None:
    def scrape(token: str) -> str:
        program = ("python3", "-c", SCRAPE)
        return kubectl.run(
            "exec", "-i", f"deploy/{MANAGER_NAME}", "-n", SYSTEM_NAMESPACE, "--", *program, stdin=token
        ).strip()

    kubectl.run("create", "serviceaccount", "scraper", "-n", SYSTEM_NAMESPACE)
    token = kubectl.run("create", "token", "scraper", "-n", SYSTEM_NAMESPACE)
    assert scrape("") == "401 False"
    assert scrape("made-up") == "401 False"
    assert scrape(token) == "403 False"

    account = f"{SYSTEM_NAMESPACE}:scraper"
    role = "--clusterrole=decision-model-operator-metrics-reader"
    kubectl.run("create", "clusterrolebinding", "scraper", role, f"--serviceaccount={account}")
    wait_until("the binding to count", lambda: scrape(token) == "200 True", 30)
    kubectl.run("delete", "clusterrolebinding", "scraper")
    assert token not in kubectl.run("logs", f"deploy/{MANAGER_NAME}", "-n", SYSTEM_NAMESPACE)


def test_the_metrics_service_leads_to_the_reconciler(installed: str, kubectl: Kubectl) -> None:
    slices = kubectl.list("endpointslices", SYSTEM_NAMESPACE, f"kubernetes.io/service-name={METRICS_SERVICE_NAME}")

    assert [len(each["endpoints"]) for each in slices] == [1]
    assert slices[0]["ports"][0]["port"] == 8443


def test_an_update_takes_over_what_one_file_installed(
    installed: str, stack: PulumiStack, environment: Environment, kubectl: Kubectl
) -> None:
    """What it sets otherwise is kubectl's by then; nothing is made anew, and what serves serves on."""
    kubectl.apply(decision_model("installed", "default", "laya:en"))
    wait_until("the model to be ready", lambda: is_ready(kubectl, "installed"), 150)
    kept = (("crd", DEFINITION), ("namespace", SYSTEM_NAMESPACE), ("deployment", MANAGER_NAME, SYSTEM_NAMESPACE))
    before = [uid(kubectl, *key) for key in (*kept, ("decisionmodel", "installed"))]
    asking = Asking(kubectl, environment.images.registry.name, "installed")
    asking.start()
    try:
        configure(stack, manager__maxConcurrentReconciles=2)
        # As documented: else what only the file has, here another port, stays kubectl's beside the environment's.
        kubectl.run("apply", *HANDED_OVER, "-f", "-", stdin=installed)
        update(stack)
        assert asking.tally()["failed"] == 0
    finally:
        asking.stop()

    assert [uid(kubectl, *key) for key in (*kept, ("decisionmodel", "installed"))] == before
    assert "--max-concurrent-reconciles=2" in manager_container(kubectl)["args"]
    assert [each["containerPort"] for each in manager_container(kubectl)["ports"]] == [8081, 8080]
