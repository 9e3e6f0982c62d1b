"""One label opens a Secret for one use, and its value is shown nowhere: on the real cluster (spec section 8.4)."""

from __future__ import annotations

import base64
import json
from itertools import product
from typing import Any

import pytest

from api.keys import API_KEY_LABEL, DATASET_LABEL, DOWNLOAD_TOKEN_LABEL
from tests.cluster.golden import golden
from tests.cluster.observing import OPERATOR, SYSTEM, Bench, decision_model, reason
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

CANARY = "canary-0c7d5a1be94f"
API_KEY, DATASET, DOWNLOAD_TOKEN = USES = ("api-key", "eval-dataset", "download-token")
LABELS = {API_KEY: API_KEY_LABEL, DATASET: DATASET_LABEL, DOWNLOAD_TOKEN: DOWNLOAD_TOKEN_LABEL, "nothing": ""}
"""What a Secret is opened for, by the name it has here."""
VALUES = {
    API_KEY: f"{CANARY}-key",
    DATASET: golden(20).replace("please", f"{CANARY}-case"),
    DOWNLOAD_TOKEN: f"{CANARY}-token",
}
# Data sets shared the label of API keys before they had their own, and may do so for one more release.
OPENED = {*((use, use) for use in USES), (DATASET, API_KEY)}
READABLE_KINDS = (
    "decisionmodels,deployments,replicasets,pods,jobs,configmaps,services,endpointslices,persistentvolumeclaims,"
    "events,events.events.k8s.io,leases"
)
FILES_WITH_A_VALUE = """
import gzip, json, os, sys
needles = [needle.encode() for needle in json.load(sys.stdin)]
read, found = 0, []
for directory, _, names in os.walk("/var/lib/decisionmodel"):
    for name in names:
        path = os.path.join(directory, name)
        try:
            content = open(path, "rb").read()
        except FileNotFoundError:
            continue
        content = gzip.decompress(content) if content[:2] == b"\\x1f\\x8b" else content
        read += 1
        found += [path] if any(needle in content for needle in needles) else []
json.dump({"read": read, "found": found}, sys.stdout)
"""


def test_each_label_opens_a_secret_for_its_own_use_and_nobody_sees_a_value(bench: Bench) -> None:
    bench.kubectl.apply(*(secret(bench, opened_for) for opened_for in LABELS))
    bench.kubectl.apply(*(model(bench, use, opened_for) for use, opened_for in product(USES, LABELS)))
    for use, opened_for in product(USES, LABELS):
        name = model_name(use, opened_for)
        if (use, opened_for) in OPENED:
            bench.wait_ready(name, 180)
        elif use == DATASET:
            assert_held(bench, name, opened_for)
        else:
            assert_nothing_started(bench, name, use, opened_for)
    assert told_of_the_old_label(bench) == {model_name(DATASET, API_KEY)}
    assert_referenced_only(bench)
    assert_shown_nowhere(bench)


def secret(bench: Bench, opened_for: str) -> Object:
    """Return a Secret that holds a value for each use, and is opened for one of them or for none."""
    labels = {LABELS[opened_for]: "true"} if LABELS[opened_for] else {}
    metadata = {"name": opened_for, "namespace": bench.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded()}


def encoded() -> dict[str, str]:
    """Return the Secrets' values as Kubernetes keeps them, by use."""
    return {use: base64.b64encode(value.encode()).decode() for use, value in VALUES.items()}


def model_name(use: str, opened_for: str) -> str:
    return f"{use}-by-{opened_for}"


def model(bench: Bench, use: str, opened_for: str) -> Object:
    """Return a DecisionModel that uses the Secret which is opened for something."""
    reference = {"name": opened_for, "key": use}
    specs: dict[str, dict[str, Any]] = {
        API_KEY: {"auth": {"apiKeySecretRef": reference}},
        DATASET: {"rollout": {"evaluation": {"datasetRef": {"secretRef": reference}, "minAccuracy": "0.5"}}},
        DOWNLOAD_TOKEN: {"cache": {"size": "64Mi", "downloadTokenSecretRef": reference}},
    }
    return decision_model(model_name(use, opened_for), bench.namespace, "laya:en", **specs[use])


def assert_nothing_started(bench: Bench, name: str, use: str, secret: str) -> None:
    model = bench.wait(name, "refused", lambda dm: reason(dm, "Ready") == "SecretNotAllowed")
    assert phase(model) == "Degraded"
    assert_names_the_label(condition(model, "Ready")["message"], use, secret)
    assert bench.children(name) == {}


def assert_held(bench: Bench, name: str, secret: str) -> None:
    """A data set is read last, so its model has been started; it waits unpromoted."""
    model = bench.wait(name, "held", lambda dm: reason(dm, "Evaluated") == "SecretNotAllowed", 180)
    assert phase(model) == "Evaluating"
    assert_names_the_label(condition(model, "Evaluated")["message"], DATASET, secret)
    assert not bench.selected(name)


def assert_names_the_label(message: str, use: str, secret: str) -> None:
    assert f"Secret {secret} " in message
    assert LABELS[use] in message


def told_of_the_old_label(bench: Bench) -> set[str]:
    """Return the models that were told to change the label of their data set."""
    return {name for name in (model_name(*cell) for cell in OPENED) if bench.told(name, "DeprecatedSecretLabel")}


def assert_referenced_only(bench: Bench) -> None:
    """The value's way into a container is a reference, and each container has the one that it needs."""
    (deployment,) = bench.kubectl.list("deployments", bench.namespace, f"decisionmodel.io/name={API_KEY}-by-{API_KEY}")
    assert secrets_of(deployment) == {"OLLAYA_API_KEY": {"name": API_KEY, "key": API_KEY, "optional": False}}
    label = f"decisionmodel.io/name={DOWNLOAD_TOKEN}-by-{DOWNLOAD_TOKEN}"
    (job,) = bench.kubectl.list("jobs", bench.namespace, label)
    reference = {"name": DOWNLOAD_TOKEN, "key": DOWNLOAD_TOKEN, "optional": False}
    assert secrets_of(job) == {"OLLAYA_HF_TOKEN": reference}
    (deployment,) = bench.kubectl.list("deployments", bench.namespace, label)
    assert secrets_of(deployment) == {}


def secrets_of(workload: Object) -> dict[str, Any]:
    """Return the references to Secrets in the environment of a workload's container, by variable."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"] if "valueFrom" in each}


def assert_shown_nowhere(bench: Bench) -> None:
    values = [CANARY, *encoded().values()]
    readable = bench.kubectl.run("get", READABLE_KINDS, "-n", bench.namespace, "-o", "json")
    assert len(json.loads(readable)["items"]) > 12, "it is looked at what there is"
    for shown in (readable, bench.operator_log(-1), bench.kubectl.run("get", "leases", "-n", SYSTEM, "-o", "json")):
        assert [value for value in values if value in shown] == []
    program = ("exec", "-i", f"deploy/{OPERATOR}", "-n", SYSTEM, "--", "python3", "-c", FILES_WITH_A_VALUE)
    kept = json.loads(bench.kubectl.run(*program, stdin=json.dumps(values)))
    assert kept["found"] == []
    assert kept["read"] > 2, "the states of the stacks are there"
    asked = [each for each in bench.registry_requests() if CANARY in json.dumps(each)]
    assert {each["host"] for each in asked} == {"weights"}, "the token goes to the weights' host and to nobody else"
