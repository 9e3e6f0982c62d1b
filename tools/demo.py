"""The main job, for real and from nothing: a cluster, the Pulumi engine, the platform, a model, an answer, a rollout.

Each step says what it does and how long it took. While the model changes, a client inside the cluster asks the Service
twenty times a second; the demo fails if a single one of its requests does.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tools.cluster.errors import ClusterError
from tools.command_line import exit_code
from tools.deploy import DeployError, PulumiStack
from tools.environment import Environment, prepare, start
from tools.images import ImageBuildError
from tools.kubectl import Kubectl, KubectlError, WaitError, wait_until
from tools.observer import Asking, condition, phase, wait_for_model
from tools.standin.client import QUESTION
from tools.toolchain import ToolchainError

T = TypeVar("T")

CLUSTER = "demo"
MODEL = "support-router"
ROOT = Path(__file__).parent.parent
# The candidate must fit beside the stable on the smallest machine: two cores, of which the stable requests one.
CHANGED = {"model": "laya:multilingual", "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}
# A tag pinned to bytes that its registry does not serve (any more).
BROKEN = {"model": "laya:en-worse", "digest": "0" * 64, "resources": CHANGED["resources"]}


class DemoError(Exception):
    """Something did not turn out as it should; the message says what."""


def step(title: str, work: Callable[[], T]) -> T:
    """Do one step, and say what it was and how long it took."""
    print(f"• {title} …", flush=True)
    started = time.monotonic()
    result = work()
    print(f"  done in {time.monotonic() - started:.1f} s", flush=True)
    return result


def main() -> int:
    """Run the demo; the exit code is 0 when everything turned out as it should."""
    failures = (ClusterError, DemoError, DeployError, ImageBuildError, KubectlError, ToolchainError, WaitError)
    return exit_code("demo", _demo, *failures, next_step=_NEXT_STEP)


_NEXT_STEP = (
    f"make demo goes on with what is built and running; make cluster-down CLUSTER={CLUSTER} takes the cluster down."
)


def _demo() -> int:
    started = time.monotonic()
    _run()
    print(f"\nAll of it took {time.monotonic() - started:.0f} s. The cluster stays up. Look around:\n")
    print(_SUGGESTIONS)
    return 0


_SUGGESTIONS = f"""  export KUBECONFIG={ROOT}/.local/{CLUSTER}/kubeconfig
  export PATH=$(dirname $(.venv/bin/python -m tools.toolchain path kubectl)):$PATH   # where no kubectl is installed
  kubectl get dm -o wide
  kubectl describe dm {MODEL}
  kubectl -n decision-model-operator-system logs deploy/decision-model-operator-controller-manager
  kubectl annotate dm {MODEL} decisionmodel.io/retry="$(date +%s)" --overwrite   # try once more
  kubectl patch dm {MODEL} --type=merge -p '{{"spec":{{"model":"laya:multilingual","digest":null}}}}'   # back

  make cluster-down CLUSTER={CLUSTER}   # takes all of it down"""


def _run() -> None:
    images = step("Building what is not built yet: Pulumi, Kubernetes, images", lambda: prepare(_say))
    environment = step("Starting a Kubernetes cluster with a model registry", lambda: start(CLUSTER, images, _say))
    kubectl = environment.kubectl
    kubectl.run("delete", "decisionmodels", "--all", "--ignore-not-found", timeout=120) if _installed(kubectl) else None
    stack = PulumiStack(environment.cluster, "dev")
    step("pulumi up --stack dev: the platform, and the quickstart's model", lambda: stack.up(images.reconciler.name))
    model = step(
        f"Waiting for {MODEL} to be Ready",
        lambda: wait_for_model(kubectl, MODEL, "Ready", lambda dm: phase(dm) == "Ready", 180),
    )
    print(f"  proved: {_proof(model)}")
    step("Asking the quickstart's question (charged twice, wants a refund)", lambda: _ask(kubectl))
    _roll_out(environment)


def _installed(kubectl: Kubectl) -> bool:
    return bool(kubectl.run("get", "crd", "decisionmodels.decisionmodel.io", "--ignore-not-found").strip())


def _roll_out(environment: Environment) -> None:
    kubectl = environment.kubectl
    asking = Asking(kubectl, environment.images.registry.name, MODEL)
    step("Starting a client that asks every 50 ms, each time on a new connection", asking.start)
    step(
        f"Changing the model to {CHANGED['model']}: a candidate beside the stable, then traffic",
        lambda: _change(kubectl),
    )
    step(
        f"Changing the model to {BROKEN['model']}, pinned to bytes its registry does not serve", lambda: _break(kubectl)
    )
    tally = asking.tally()
    asking.stop()
    print(f"• The client asked {tally['asked']} times, {tally['failed']} failed, slowest {tally['slowest_ms']} ms")
    if tally["failed"]:
        raise DemoError(f"requests failed during the rollouts: {tally['errors']}")


def _change(kubectl: Kubectl) -> None:
    _patch(kubectl, CHANGED)
    serves = lambda dm: dm["status"].get("stableRevision", {}).get("model") == CHANGED["model"]  # noqa: E731
    model = wait_for_model(kubectl, MODEL, "serving the changed model", serves, 180)
    selected = model["status"]["stableRevision"]["hash"]
    wait_until("traffic to move", lambda: _selected(kubectl) == selected, 30)
    print(f"  promoted: {_proof(model)}")


def _break(kubectl: Kubectl) -> None:
    stable = _selected(kubectl)
    _patch(kubectl, BROKEN)
    model = wait_for_model(kubectl, MODEL, "rolled back", lambda dm: phase(dm) == "RolledBack", 300)
    if _selected(kubectl) != stable:
        raise DemoError("traffic moved to the broken revision")
    print(f"  rolled back: {condition(model, 'Degraded')['message']}")


def _patch(kubectl: Kubectl, spec: dict[str, Any]) -> None:
    kubectl.run("patch", "dm", MODEL, "--type=merge", "-p", json.dumps({"spec": spec}))


def _selected(kubectl: Kubectl) -> str:
    service = kubectl.get("service", MODEL) or {}
    return str(service.get("spec", {}).get("selector", {}).get("decisionmodel.io/revision", ""))


def _proof(model: dict[str, Any]) -> str:
    stable = model["status"]["stableRevision"]
    return f"{stable['model']}@sha256:{stable['digest'][:12]} on {stable['device']}, revision {stable['hash']}"


def _ask(kubectl: Kubectl) -> None:
    with port_forward(kubectl, MODEL) as port:
        body = json.dumps({"model": "laya:en", **QUESTION}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/systemone", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - as above
            answer = json.load(response)["answers"]["department"]
    print(f"  answered: {answer['choice']} with probability {answer['probabilities'][answer['choice']]}")
    if answer["choice"] != "billing":
        raise DemoError(f"expected billing, got {answer}")


@contextmanager
def port_forward(kubectl: Kubectl, service: str, port: int = 11435, namespace: str = "default") -> Iterator[int]:
    """Forward a free local port to a Service, as the quickstart does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        local = probe.getsockname()[1]
    command = [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", "port-forward", f"svc/{service}", "-n", namespace]
    with subprocess.Popen([*command, f"{local}:{port}"], stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            # Its first line says that it listens.
            if not (forwarding.stdout and forwarding.stdout.readline()):
                raise KubectlError(f"port-forward to {service} ended at once")
            yield local
        finally:
            forwarding.terminate()


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
