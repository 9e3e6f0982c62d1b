"""What a model can say where its cluster has rules of its own, on a real cluster that has them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import textwrap

import pytest

from tests.cluster.observing import SMALL, Bench, no_failed_request
from tests.cluster.side_by_side import SideBySide
from tests.reconciler.kernel.issued import issued
from tools.kubectl import wait_until
from tools.observer import Object, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

GPU = "nvidia.com/gpu"


@side_by_side
def test_a_quota_that_demands_a_cpu_limit_can_be_met_and_pods_can_be_labelled(bench: Bench) -> None:
    quota = {"limits.cpu": "4", "limits.memory": "8Gi", "requests.cpu": "4", "requests.memory": "8Gi"}
    metadata = {"name": "compute", "namespace": bench.namespace}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": quota}})
    bench.declare(
        "router",
        resources={**SMALL, "limits": {"cpu": "500m", "memory": "512Mi"}},
        cache={"size": "64Mi", "prefetch": {"resources": {"limits": {"cpu": "500m"}}}},
        pods={"labels": {"team": "a"}},
    )
    bench.wait_ready("router")
    assert labelled(bench, "a")
    bench.kubectl.delete("resourcequota", "compute", bench.namespace)  # it would refuse the client below

    with no_failed_request(bench, "router"):
        bench.edit("router", pods={"labels": {"team": "b"}})
        bench.wait("router", "the next revision", lambda dm: phase(dm) == "Ready" and labelled(bench, "b"))
    assert labelled(bench, "a"), "the Pods that served were not touched"


def labelled(bench: Bench, team: str) -> bool:
    pods = bench.kubectl.list("pods", bench.namespace)
    gated = [pod["metadata"]["labels"] for pod in pods if "readinessGates" in pod["spec"]]
    return any(labels.get("team") == team for labels in gated)


@side_by_side
def test_a_container_that_a_mesh_injects_keeps_no_download_waiting(bench: Bench) -> None:
    inject_a_proxy(bench)
    try:
        bench.declare("router")
        model = bench.wait_ready("router")
    finally:
        bench.kubectl.run("delete", "mutatingwebhookconfiguration", bench.namespace, "--ignore-not-found")
    job = bench.kubectl.get("job", f"router-pf-{model['status']['stableRevision']['hash']}", bench.namespace)
    assert job is not None
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["annotations"]["decisionmodel.io/prefetched"] == "true"
    serving = [pod for pod in bench.kubectl.list("pods", bench.namespace) if "readinessGates" in pod["spec"]]
    assert "mesh-proxy" in {container["name"] for pod in serving for container in pod["spec"]["containers"]}


INJECTOR = textwrap.dedent(
    """
    import base64, http.server, json, os, ssl
    PROXY = {"name": "mesh-proxy", "image": os.environ["IMAGE"], "imagePullPolicy": "IfNotPresent",
             "command": ["python3", "-c", "import time; time.sleep(10**6)"],
             "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}}
    PATCH = base64.b64encode(json.dumps([{"op": "add", "path": "/spec/containers/-", "value": PROXY}]).encode())
    class Injector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
                        "patch": PATCH.decode()}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())
    server = http.server.ThreadingHTTPServer(("", 8443), Injector)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
    """
)


def inject_a_proxy(bench: Bench) -> None:
    """Have a container that never ends added to every Pod of a model in the namespace."""
    namespace, image = bench.namespace, bench.environment.images.registry.name
    certificate, key = issued("injector", hosts=(f"injector.{namespace}.svc",))
    metadata = {"name": "injector", "namespace": namespace}
    labels = {"app": "injector"}
    mount = {"name": "tls", "mountPath": "/tls"}
    container = {
        "name": "injector",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", INJECTOR],
        "env": [{"name": "IMAGE", "value": image}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        "volumeMounts": [mount],
    }
    bench.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "data": {"tls.crt": encoded(certificate), "tls.key": encoded(key)},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "labels": labels},
            "spec": {"containers": [container], "volumes": [{"name": "tls", "secret": {"secretName": "injector"}}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 8443}]},
        },
    )
    bench.kubectl.run("wait", "pod/injector", "-n", namespace, "--for=condition=Ready", "--timeout=60s", timeout=90)
    service = {"name": "injector", "namespace": namespace, "path": "/"}
    bench.kubectl.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [
                {
                    "name": "injector.tests.example",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "objectSelector": {"matchExpressions": [{"key": "decisionmodel.io/name", "operator": "Exists"}]},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ],
                    "clientConfig": {"service": service, "caBundle": encoded(certificate)},
                }
            ],
        }
    )


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@side_by_side
def test_a_download_binds_its_volume_where_the_gpu_is(bench: Bench) -> None:
    """The node with the GPU is one that the scheduler believes in; nothing runs there."""
    gpu_node, storage = f"{bench.namespace}-gpu", bench.namespace
    real_node = bench.kubectl.run("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    bench.kubectl.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": storage},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        *(local_volume(f"{storage}-{index}", storage, node) for index, node in enumerate((real_node, gpu_node))),
    )
    pretend_node(bench, gpu_node)
    try:
        bench.declare("router", device="cuda", cache={"size": "64Mi", "storageClassName": storage})
        wait_until("the Job's Pod to get a node", lambda: nodes_of_pods(bench), 60)
        assert nodes_of_pods(bench) == {gpu_node}
        (claim,) = bench.kubectl.list("pvc", bench.namespace)
        assert claim["spec"]["volumeName"] == f"{storage}-1"
    finally:
        bench.kubectl.run("delete", "dm", "router", "-n", bench.namespace, "--ignore-not-found", "--wait=false")
        bench.kubectl.run("delete", "node", gpu_node, "--ignore-not-found")
        for index in (0, 1):
            bench.kubectl.run("delete", "pv", f"{storage}-{index}", "--wait=false", "--ignore-not-found")
        bench.kubectl.run("delete", "storageclass", storage, "--ignore-not-found")


def nodes_of_pods(bench: Bench) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in bench.kubectl.list("pods", bench.namespace) if "nodeName" in pod["spec"]}


def local_volume(name: str, storage: str, node: str) -> Object:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def pretend_node(bench: Bench, name: str) -> None:
    """Make a node with a GPU, tainted as such nodes are, which counts as ready until its Lease is missed."""
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "100", GPU: "1"}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "Pretended", "message": "nothing runs here"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
    }
    bench.kubectl.apply(node)
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
    }
    patch = json.dumps({"status": status})
    bench.kubectl.run("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
