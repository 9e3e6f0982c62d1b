"""The reconciler's flags, changed by restarting it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.observing import OPERATOR, SYSTEM, Bench


@contextmanager
def restarted_with(bench: Bench, *flags: str) -> Iterator[None]:
    """Restart the reconciler with more flags, and with those it had at the end."""
    deployment = bench.kubectl.get("deployment", OPERATOR, SYSTEM)
    assert deployment
    before = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    _set_arguments(bench, [*before, *flags])
    yield
    _set_arguments(bench, before)


def _set_arguments(bench: Bench, arguments: list[str]) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": arguments}]
    target = (f"deployment/{OPERATOR}", "-n", SYSTEM)
    bench.kubectl.run("patch", *target, "--type=json", "-p", json.dumps(patch))
    bench.kubectl.run("rollout", "status", *target, "--timeout=120s", timeout=150)
