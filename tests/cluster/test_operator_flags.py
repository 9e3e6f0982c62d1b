"""What the reconciler's flags change, each on a reconciler that was restarted for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.flags import restarted_with
from tests.cluster.observing import Bench, no_failed_request, reason
from tools.kubectl import wait_until
from tools.observer import condition, phase

pytestmark = pytest.mark.cluster

OLDER = "0.11.0"


def candidates(bench: Bench, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if "candidateRevision" in bench.model(name).get("status", {})]


def test_only_so_many_rollouts_are_under_way_at_once(bench: Bench) -> None:
    names = ("alpha", "beta", "gamma")
    for name in names:
        bench.declare(name, rollout={"stabilization": "0s"})
    for name in names:
        bench.wait_ready(name, 150)
    with no_failed_request(bench, "gamma"), restarted_with(bench, "--max-concurrent-rollouts=1"):
        most, order = 0, list[str]()

        def all_done() -> bool:
            nonlocal most
            under_way = candidates(bench, names)
            most = max(most, len(under_way))
            order.extend(name for name in under_way if name not in order)
            return all(is_serving(bench, name, "laya:en-better") for name in names)

        for name in names:
            bench.edit(name, model="laya:en-better")
        queued = bench.wait("gamma", "queued", lambda dm: reason(dm, "Ready") == "RolloutQueued", 60)
        assert phase(queued) == "Pending"
        wait_until("all of them to be rolled out", all_done, 240, every=0.3)
        assert most == 1
        assert len(order) == 3


def is_serving(bench: Bench, name: str, model: str) -> bool:
    status = bench.model(name)["status"]
    return bool(status.get("stableRevision", {}).get("model") == model and status.get("phase") == "Ready")


def test_a_newer_default_runtime_rolls_only_what_follows_it(bench: Bench) -> None:
    bench.declare("router", runtimeVersion=OLDER)
    older = bench.wait_ready("router", 120)
    assert reason(older, "RuntimeUpdateAvailable") == "RuntimeUpdateAvailable"
    assert OLDER in condition(older, "RuntimeUpdateAvailable")["message"]
    bench.edit("router", runtimeVersion=None)
    same = bench.wait_ready("router")
    assert same["status"]["stableRevision"] == older["status"]["stableRevision"]
    with no_failed_request(bench, "router"), restarted_with(bench, "--runtime-version-policy=FollowOperator"):
        bench.wait("router", "on the newer runtime", runs("0.12.0"), 180)
    # Pinned again: what serves is what stays.
    assert bench.wait_ready("router", 60)["status"]["stableRevision"]["runtimeVersion"] == "0.12.0"


def runs(version: str) -> Callable[[dict[str, object]], bool]:
    def holds(model: dict[str, object]) -> bool:
        status = model["status"]
        assert isinstance(status, dict)
        return bool(status.get("stableRevision", {}).get("runtimeVersion") == version)

    return holds


def test_only_watched_namespaces_are_acted_on(bench: Bench) -> None:
    other = f"{bench.namespace}-unwatched"
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    unwatched = Bench(bench.environment, other)
    try:
        with restarted_with(bench, f"--watch-namespaces={bench.namespace}"):
            unwatched.declare("router")
            bench.declare("router")
            bench.wait_ready("router")
            assert "status" not in unwatched.model("router")
            assert unwatched.children("router") == {}
        unwatched.wait_ready("router", 120)
    finally:
        bench.kubectl.delete("namespace", other, "default", "--wait=false")
