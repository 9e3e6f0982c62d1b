"""Two reconcilers over a bucket: the leader ends in every phase of a rollout, and nobody who asks notices.

A cluster of its own: these replicas replace each other and keep their state elsewhere than those of the other tests.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import boto3
import pytest

from components.configuration import S3State
from components.platform.pod import s3_url
from tests.cluster.leading import End, Leadership, Takeover, golden, stall_downloads
from tests.cluster.observing import OPERATOR, SYSTEM, Bench, no_failed_request
from tools.bucket import CREDENTIALS, NAME, PORT, REGION, Bucket
from tools.cluster.layout import NODE_ADDRESS
from tools.deploy import PulumiStack
from tools.environment import Environment, prepare, start
from tools.kubectl import WaitError, wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

SLOW_TO_START = "laya:en-slow"
KILLED_WITHIN, STOPPED_WITHIN = 20.0, 5.0
CREDENTIALS_SECRET = "state-credentials"
BACKEND = {
    "bucket": NAME,
    "region": REGION,
    "endpoint": f"{NODE_ADDRESS}:{PORT}",
    "disableTls": True,
    "forcePathStyle": True,
    "credentialsSecret": CREDENTIALS_SECRET,
}
HISTORY_ENTRIES = 10
CANARIES = {"api-key": "canary-of-the-api-key-8fd1", "download-token": "canary-of-the-download-token-27ab"}


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[Environment]:
    environment = start("ha", prepare(print), print)
    yield environment
    if not pytestconfig.getoption("--keep-cluster"):
        environment.cluster.down()


@pytest.fixture(scope="module")
def bucket(cluster: Environment) -> Iterator[Bucket]:
    bucket = Bucket(cluster.cluster, cluster.cluster.layout.logs / "bucket.log")
    bucket.start()
    yield bucket
    bucket.stop()


@pytest.fixture(scope="module")
def bench(cluster: Environment, bucket: Bucket) -> Bench:
    """A namespace on a cluster with two reconcilers that keep their state in the bucket."""
    cluster.kubectl.apply(namespace(SYSTEM), secret(SYSTEM, CREDENTIALS_SECRET, CREDENTIALS), namespace("rollouts"))
    stack = PulumiStack(cluster.cluster, "dev")
    stack.up(cluster.images.reconciler.name, replicas=2, state={"s3": BACKEND})
    cluster.kubectl.delete("decisionmodel", "support-router")
    return Bench(cluster, "rollouts")


@pytest.fixture(scope="module")
def leadership(bench: Bench) -> Leadership:
    leadership = Leadership(bench)
    leadership.begin()
    return leadership


@pytest.fixture(scope="module")
def served(bench: Bench) -> dict[str, str]:
    """The revision that each model serves before the first leader ends."""
    for kind, canary in CANARIES.items():
        bench.kubectl.apply(secret(bench.namespace, kind, {"value": canary}, **{f"decisionmodel.io/{kind}": "true"}))
    for end in End:
        bench.declare(name_of(end))
    bench.declare("steady")
    bench.declare(
        "guarded",
        auth={"apiKeySecretRef": {"name": "api-key", "key": "value"}},
        cache={"size": "64Mi", "downloadTokenSecretRef": {"name": "download-token", "key": "value"}},
    )
    names = (*map(name_of, End), "steady", "guarded")
    served = {name: str(bench.wait_ready(name, 150)["status"]["stableRevision"]["hash"]) for name in names}
    for name, revision in served.items():
        bench.wait_selected(name, revision)
    return served


def name_of(end: End) -> str:
    """Return the name of the model that is rolled out while leaders end in this way."""
    return end.name.lower()


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def secret(namespace: str, name: str, content: dict[str, str], **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content}


@pytest.mark.parametrize("end", End)
def test_a_leader_that_ends_in_any_phase_is_replaced_and_nobody_notices(
    bench: Bench, leadership: Leadership, served: dict[str, str], end: End
) -> None:
    name = name_of(end)
    before = served[name]
    policy = {"evaluation": gate(bench), "promotion": "Manual"}
    takeovers: dict[str, Takeover] = {}

    def end_leader_when(moment: str, holds: Callable[[Object], bool]) -> Object:
        leadership.wait_for_standby()
        model = bench.wait(name, moment, holds)
        takeovers[moment] = leadership.end_leader(end)
        return model

    with no_failed_request(bench, name):
        leadership.wait_for_standby()
        stall_downloads(bench, 5)
        bench.edit(name, model=SLOW_TO_START, rollout=policy)
        end_leader_when("Caching", lambda dm: phase(dm) == "Caching")
        end_leader_when("Starting", lambda dm: phase(dm) == "Starting")
        end_leader_when("Evaluating", lambda dm: phase(dm) == "Evaluating")
        parked = end_leader_when("AwaitingPromotion", lambda dm: phase(dm) == "AwaitingPromotion")
        after = parked["status"]["candidateRevision"]["hash"]
        assert bench.selected(name) == before
        leadership.wait_for_standby()
        bench.annotate(name, "decisionmodel.io/promote", parked["status"]["evaluation"]["approvalId"])
        end_leader_when("promoted", lambda dm: dm["status"]["stableRevision"]["hash"] == after)
        wait_until("traffic to move", lambda: bench.selected(name) == after, 60)
        end_leader_when("stabilizing", lambda dm: condition(dm, "Stabilizing").get("status") == "True")
        bench.wait_ready(name)

    report(takeovers)
    assert len(takeovers) == 6
    assert bench.told(name, "Promoted") == 2
    assert sorted(bench.children(name)["Deployment"]) == sorted(f"{name}-{each}" for each in (before, after))
    assert bench.selected(name) == after
    limit = KILLED_WITHIN if end is End.KILL else STOPPED_WITHIN
    assert {moment: each for moment, each in takeovers.items() if each.write > limit} == {}


def gate(bench: Bench) -> dict[str, Any]:
    """Put a data set into the namespace that takes a moment to ask, and return a gate that any answers pass."""
    metadata = {"name": "golden", "namespace": bench.namespace}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"cases": golden(500)}})
    return {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0"}


def report(takeovers: dict[str, Takeover]) -> None:
    for moment, each in takeovers.items():
        print(  # noqa: T201 -- what was measured, for whoever runs with -s or sees it fail
            f"{each.end:18} {moment:17} stopping {each.stopping:5.2f} s, lease {each.lease:5.2f} s,"
            f" first write {each.write:5.2f} s"
        )


def test_nothing_secret_and_no_endless_history_is_in_the_bucket(
    bench: Bench, served: dict[str, str], bucket: Bucket
) -> None:
    content = wait_until("no operation to hold a lock", lambda: unlocked(objects(bucket)), 60)
    states = [key for key in content if key.startswith(".pulumi/stacks/decisionmodel/") and "guarded" in key]
    assert states, sorted(content)
    forms = [form for canary in CANARIES.values() for form in (canary.encode(), base64.b64encode(canary.encode()))]
    assert [key for key, data in content.items() if any(form in data for form in forms)] == []
    kept = Counter(key.split("/")[3] for key in content if key.endswith(".history.json.gz"))
    assert kept
    assert max(kept.values()) <= HISTORY_ENTRIES


def unlocked(content: dict[str, bytes]) -> dict[str, bytes] | None:
    """Return the content of a bucket in which no lock is."""
    return None if any("/locks/" in key for key in content) else content


def test_the_states_are_sound_as_seen_from_the_reconcilers_own_pod(bench: Bench, served: dict[str, str]) -> None:
    # An operation under way is a finding for as long as it lasts.
    with suppress(WaitError):
        wait_until("no operation to be under way", lambda: not checked_states(bench)["findings"], 60)
    told = checked_states(bench)
    assert told["findings"] == []
    assert told["checked"] >= 1


def checked_states(bench: Bench) -> Object:
    """Return what `dmctl state check` reports in the reconciler's Pod; it exits with 1 when there are findings."""
    command = 'python3 -m cli state check "--backend=$0" -o json || true'
    asking = ("exec", f"deploy/{OPERATOR}", "-n", SYSTEM, "--", "sh", "-c", command)
    return dict(json.loads(bench.kubectl.run(*asking, s3_url(S3State.model_validate(BACKEND)), timeout=120)))


def test_a_bucket_that_goes_away_and_comes_back_empty_costs_no_model(
    bench: Bench, served: dict[str, str], bucket: Bucket
) -> None:
    """However long an outage is, each try fails in the same way and the next comes later: one failed try shows all."""
    revision = served["steady"]
    with no_failed_request(bench, "steady"):
        bucket.stop()
        bench.edit("steady", replicas=2)
        told = bench.wait(
            "steady", "told why", lambda dm: "BackendUnreachable" in condition(dm, "Degraded").get("message", "")
        )
        assert condition(told, "Ready")["status"] == "True"
        bucket.start()
        bench.wait_ready("steady", 120)
    assert bench.selected("steady") == revision
    assert bench.children("steady")["Deployment"] == [f"steady-{revision}"]
    assert [key for key in objects(bucket) if "/stacks/" in key and ".steady." in key and key.endswith(".gz")]


def objects(bucket: Bucket) -> dict[str, bytes]:
    """Return everything in the bucket, decompressed."""
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{bucket.endpoint}",
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=NAME)
    keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
    content = {key: client.get_object(Bucket=NAME, Key=key)["Body"].read() for key in keys}
    return {key: gzip.decompress(data) if key.endswith(".gz") else data for key, data in content.items()}
