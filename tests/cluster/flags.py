"""The reconciler's flags, changed by restarting it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.leading import Leadership
from tests.cluster.observing import OPERATOR, SYSTEM, Bench
from tools.kubectl import wait_until


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
    bench.kubectl.run("patch", "deployment", OPERATOR, "-n", SYSTEM, "--type=json", "-p", json.dumps(patch))
    # It works from then on; the kubelet calls it ready only when it looks next.
    wait_until("a reconciler with these arguments to lead", lambda: _leaders_arguments(bench) == arguments, 120)


def _leaders_arguments(bench: Bench) -> list[str]:
    return list(Leadership(bench).leader()["spec"]["containers"][0]["args"])
