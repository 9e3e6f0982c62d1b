"""kubectl for programs: the demo, the benchmarks and the cluster tests do with clusters what their users do."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tools.objects import ObjectReader, ReadError

T = TypeVar("T")


class KubectlError(Exception):
    """kubectl refused or failed; the message is what it said."""


class WaitError(Exception):
    """A condition did not come true in time; the message says what was waited for and what was seen last."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl against the cluster of one kubeconfig, and looks at its objects without starting it."""

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
        with self._looking() as objects:
            return objects.get(kind, name, namespace)

    def list(self, kinds: str, namespace: str = "default", selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of one kind, or of several with commas between them, in one namespace."""
        with self._looking() as objects:
            return objects.list(kinds, namespace, selector)

    def log(self, pod: str, namespace: str, lines: int) -> str:
        """Return the last lines of the log of a Pod's only container."""
        with self._looking() as objects:
            return objects.log(pod, namespace, lines)

    def delete(self, kind: str, name: str, namespace: str = "default", *options: str) -> None:
        """Delete one object; it may be gone already."""
        self.run("delete", kind, name, "-n", namespace, "--ignore-not-found", *options, timeout=120)

    @contextmanager
    def _looking(self) -> Iterator[ObjectReader]:
        try:
            yield _reader(self.kubeconfig, self.kubeconfig.stat().st_mtime_ns)
        except (OSError, ReadError) as error:
            raise KubectlError(str(error)) from None


@lru_cache
def _reader(kubeconfig: Path, _written: int) -> ObjectReader:
    """Return the one reader of a kubeconfig as it is now: a cluster made anew has other certificates."""
    return ObjectReader.connect(kubeconfig)


def wait_until(what: str, look: Callable[[], T | None], timeout: float, *, every: float = 0.5) -> T:
    """Look until something true is seen and return it.

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
