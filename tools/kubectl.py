"""kubectl for programs: the demo, the benchmarks and the cluster tests look at clusters the way their users do."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class KubectlError(Exception):
    """kubectl refused or failed; the message is what it said."""


class WaitError(Exception):
    """A condition did not come true in time; the message says what was waited for and what was seen last."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl against the cluster of one kubeconfig."""

    kubeconfig: Path
    program: str = "kubectl"

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl and return what it printed.

        Raises:
            KubectlError: It did not exit with 0 in time.
        """
        command = [self.program, f"--kubeconfig={self.kubeconfig}", *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise KubectlError(f"kubectl {' '.join(arguments)} took longer than {timeout:g} s") from None
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def apply(self, *manifests: Mapping[str, Any], **options: Any) -> str:
        """Apply manifests."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.run("apply", "-f", "-", stdin=json.dumps(items), **options)

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return one object, None when there is none."""
        found = self.run("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return dict(json.loads(found)) if found.strip() else None

    def list(self, kind: str, namespace: str = "default", selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind in one namespace."""
        found = json.loads(self.run("get", kind, "-n", namespace, "-l", selector, "-o", "json"))
        return list(found["items"])

    def delete(self, kind: str, name: str, namespace: str = "default", *options: str) -> None:
        """Delete one object; it may be gone already."""
        self.run("delete", kind, name, "-n", namespace, "--ignore-not-found", *options, timeout=120)


def wait_until(what: str, look: Callable[[], T | None], timeout: float, *, every: float = 0.5) -> T:
    """Look until something true is seen and return it.

    Each start of kubectl costs an eighth of a second on a core, which what is waited for may need.

    Raises:
        WaitError: Nothing true was seen within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise WaitError(f"waited {timeout:g} s for {what}; last seen: {seen!r}")
        time.sleep(every)
