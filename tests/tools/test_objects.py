"""Looking at a cluster's objects through one connection: names of kinds, what is there, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tools.kubectl import Kubectl, KubectlError
from tools.objects import ObjectReader, ReadError

POD = {"metadata": {"name": "laya", "managedFields": [{"manager": "kubelet"}]}, "spec": {"nodeName": "demo"}}
SEEN = {"metadata": {"name": "laya"}, "spec": {"nodeName": "demo"}}


def resource(plural: str, kind: str, *short: str, scope: str = "Namespaced") -> dict[str, Any]:
    return {
        "resource": plural,
        "singularResource": kind.lower(),
        "responseKind": {"kind": kind},
        "shortNames": list(short),
        "scope": scope,
    }


def group(name: str, *resources: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    return {"metadata": metadata, "versions": [{"version": "v1", "resources": list(resources)}]}


class ApiServer:
    """Answers paths with what it was given, and everything else with 404."""

    def __init__(self) -> None:
        self.asked: list[httpx2.Request] = []
        core = group("", resource("pods", "Pod", "po"), resource("events", "Event"), {"resource": "bindings"})
        named = [group("events.k8s.io", resource("events", "Event"))]
        named.append(group("storage.k8s.io", resource("storageclasses", "StorageClass", "sc", scope="Cluster")))
        self.answers: dict[str, Any] = {"/api": {"items": [core]}, "/apis": {"items": named}}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.get(request.url.path, httpx2.Response(404, text="no such thing"))
        return answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def objects(server: ApiServer) -> ObjectReader:
    return ObjectReader(httpx2.Client(transport=httpx2.MockTransport(server), base_url="https://cluster"))


@pytest.mark.parametrize("name", ["pods", "pod", "Pod", "po"])
def test_a_kind_goes_by_its_plural_its_singular_its_own_name_and_its_short_names(
    server: ApiServer, objects: ObjectReader, name: str
) -> None:
    server.answers["/api/v1/namespaces/apps/pods/laya"] = POD
    assert objects.get(name, "laya", "apps") == SEEN


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("events", "/api/v1/namespaces/apps/events"),
        ("events.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/apps/events"),
        ("sc", "/apis/storage.k8s.io/v1/storageclasses"),
    ],
)
def test_the_core_group_comes_first_and_a_group_can_be_named(
    server: ApiServer, objects: ObjectReader, name: str, path: str
) -> None:
    server.answers[path] = {"items": None}
    assert objects.list(name, "apps") == []
    assert server.asked[-1].url.path == path


def test_listed_objects_say_of_what_kind_they_are(server: ApiServer, objects: ObjectReader) -> None:
    server.answers["/api/v1/namespaces/apps/pods"] = {"items": [POD]}
    server.answers["/apis/storage.k8s.io/v1/storageclasses"] = {"items": [{"metadata": {"name": "disk"}}]}
    assert objects.list("pods,sc", "apps", "app=laya,tier") == [
        {"apiVersion": "v1", "kind": "Pod", **SEEN},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"}},
    ]
    assert server.asked[-1].url.params["labelSelector"] == "app=laya,tier"


def test_what_is_not_there_is_none(objects: ObjectReader) -> None:
    assert objects.get("pod", "laya", "apps") is None


def test_a_kind_defined_since_is_found(server: ApiServer, objects: ObjectReader) -> None:
    with pytest.raises(ReadError, match='no resource type "decisionmodels"'):
        objects.list("decisionmodels", "apps")
    server.answers["/apis"]["items"].append(group("decisionmodel.io", resource("decisionmodels", "DecisionModel")))
    server.answers["/apis/decisionmodel.io/v1/namespaces/apps/decisionmodels"] = {"items": []}
    assert objects.list("decisionmodels", "apps") == []


def test_the_end_of_a_log_is_asked_for(server: ApiServer, objects: ObjectReader) -> None:
    server.answers["/api/v1/namespaces/apps/pods/laya/log"] = httpx2.Response(200, text="the last line\n")
    assert objects.log("laya", "apps", 1) == "the last line\n"
    assert server.asked[-1].url.params["tailLines"] == "1"


@pytest.mark.parametrize("look", [lambda o: o.get("pod", "laya", "apps"), lambda o: o.list("pods", "apps")])
def test_a_refusal_is_told(server: ApiServer, objects: ObjectReader, look: Callable[[ObjectReader], object]) -> None:
    for path in ("/api/v1/namespaces/apps/pods/laya", "/api/v1/namespaces/apps/pods"):
        server.answers[path] = httpx2.Response(403, text="not for you")
    with pytest.raises(ReadError, match=r"GET /api/v1/namespaces/apps/pods\S*: 403: not for you"):
        look(objects)


KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
"""


def test_a_cluster_out_of_reach_or_without_a_kubeconfig_is_told_as_kubectl_tells_it(tmp_path: Path) -> None:
    kubectl = Kubectl(tmp_path / "kubeconfig")
    with pytest.raises(KubectlError, match=r"kubeconfig"):
        kubectl.get("pod", "laya")
    kubectl.kubeconfig.write_text(KUBECONFIG)
    with pytest.raises(KubectlError, match=r"GET /apis: ConnectError"):
        kubectl.list("pods")
