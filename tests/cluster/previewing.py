"""`dmctl preview` as a process against a real cluster, the account its documentation asks for, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cli.preview.happenings import Snapshot, snapshot
from tests.cli.preview.rights import documented_role
from tests.cluster.observing import OPERATOR, OWNED_KINDS, SYSTEM, Bench
from tools.deploy import ROOT, PulumiStack
from tools.kubectl import wait_until
from tools.observer import Object

_STATE = "/var/lib/decisionmodel/state"
_ACCOUNT = "previewer"


@dataclass(frozen=True, slots=True)
class Told:
    """How a preview ended, and what it said of each DecisionModel by name."""

    code: int
    models: dict[str, Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dmctl:
    """The command in a Pulumi project of its own, whose environment says what the cluster's reconciler was told.

    Registries are reached through an HTTP proxy on `proxy_port`: their names mean nothing outside the cluster.
    """

    directory: Path
    proxy_port: int

    def preview(self, kubeconfig: Path, manifests: Iterable[Object], stack: str | None = "dev") -> Told:
        """Preview manifests with the rights of a kubeconfig; without a stack, nor a way around, by these alone."""
        (self.directory / "models.yaml").write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
        options = ("--kubeconfig", str(kubeconfig), "-o", "json", *(("--stack", stack) if stack else ()))
        proxied = {"HTTP_PROXY": f"http://127.0.0.1:{self.proxy_port}"} if stack else {}
        done = subprocess.run(
            [sys.executable, "-m", "cli", "preview", *options, "models.yaml"],
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **proxied},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 1, 2), done.stderr
        return Told(done.returncode, {model["name"]: model for model in json.loads(done.stdout)["models"]})


def write_environment(stack: PulumiStack, directory: Path, **manager: Any) -> Path:
    """Write the project of a stack as it was deployed, with some of the reconciler's settings changed."""
    name = f"Pulumi.{stack.stack}.yaml"
    configured = yaml.safe_load((stack.directory / name).read_text(encoding="utf-8"))
    configured["config"]["decisionmodel:manager"] |= manager
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(yaml.safe_dump(configured), encoding="utf-8")
    (directory / "Pulumi.yaml").write_bytes((stack.directory / "Pulumi.yaml").read_bytes())
    return directory


def write_reader_kubeconfig(bench: Bench, path: Path) -> Path:
    """Write a kubeconfig for an account with the documented rights, in the bench's namespace alone."""
    namespaced = {"name": _ACCOUNT, "namespace": bench.namespace}
    group = "rbac.authorization.k8s.io"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": namespaced}
    role = {**documented_role(), "kind": "Role", "metadata": namespaced}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": namespaced,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": _ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", **namespaced}],
    }
    bench.kubectl.apply(account, role, binding)
    token = bench.kubectl.run("create", "token", _ACCOUNT, "-n", bench.namespace).strip()
    kubeconfig = yaml.safe_load(bench.kubectl.kubeconfig.read_text(encoding="utf-8"))
    kubeconfig["users"] = [{"name": user["name"], "user": {"token": token}} for user in kubeconfig["users"]]
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class View:
    """One DecisionModel at one moment: itself, its objects, and the UIDs of its serving Pods."""

    model: Object
    objects: Snapshot
    pods: frozenset[str]


def look(bench: Bench) -> dict[str, View]:
    """Return all DecisionModels of the namespace by name."""
    items = bench.kubectl.list(f"decisionmodels,{OWNED_KINDS}", bench.namespace)
    models = {item["metadata"]["name"]: item for item in items if item["kind"] == "DecisionModel"}
    return {name: _view(model, [item for item in items if _belongs(item, name)]) for name, model in models.items()}


def _view(model: Object, objects: list[Object]) -> View:
    serving = (item for item in objects if item["kind"] == "Pod" and "readinessGates" in item["spec"])
    return View(model, snapshot(objects), frozenset(pod["metadata"]["uid"] for pod in serving))


def _belongs(item: Object, name: str) -> bool:
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels.get("decisionmodel.io/name") == name


@dataclass(frozen=True, slots=True)
class Traces:
    """Whatever a write would change: every object of the namespace by its resourceVersion, and the stacks' files."""

    objects: frozenset[tuple[str, ...]]
    files: frozenset[str]

    def __xor__(self, other: Traces) -> frozenset[object]:
        """Return what is not in both."""
        return frozenset({*(self.objects ^ other.objects), *(self.files ^ other.files)})


def traces(bench: Bench) -> Traces:
    """Look for traces of writes."""
    kinds = bench.kubectl.run("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    items = bench.kubectl.list(",".join(kinds), bench.namespace)
    command = f"find {_STATE} -type f | sort | xargs sha256sum"
    state = bench.kubectl.run("exec", f"deploy/{OPERATOR}", "-n", SYSTEM, "--", "sh", "-c", command)
    return Traces(frozenset(map(_trace, items)), frozenset(state.splitlines()))


def _trace(item: Object) -> tuple[str, ...]:
    metadata = item["metadata"]
    return item["kind"], metadata["name"], metadata["resourceVersion"], item.get("reason", "")


def wait_until_quiet(bench: Bench) -> Traces:
    """Wait until two looks in a row see the same, and return it."""
    last: Traces | None = None

    def unchanged() -> Traces | None:
        nonlocal last
        before, last = last, traces(bench)
        return last if last == before else None

    return wait_until("nothing to happen any more", unchanged, 90, every=2)
