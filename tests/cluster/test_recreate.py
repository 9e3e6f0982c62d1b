"""Strategy Recreate, and what happens to a promoted revision that turns bad: on the real cluster."""

from __future__ import annotations

import pytest

from tests.cluster.observing import Bench, no_failed_request, reason
from tests.cluster.side_by_side import SideBySide
from tools.kubectl import wait_until
from tools.observer import phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

RECREATE = {"strategy": "Recreate", "timeouts": {"starting": "1m"}}


def turn_bad(bench: Bench, name: str, revision: str) -> None:
    """Let one runtime of a promoted revision lose its model, and load it on another device when it is asked to."""
    pod = bench.serving_pods(name, revision)[0]["metadata"]["name"]
    bench.runtime(pod, {"device": "metal"})
    bench.unload(pod, "laya:en-better")


@side_by_side
def test_the_stable_makes_room_and_comes_back_when_its_successor_fails(bench: Bench) -> None:
    bench.declare("router", rollout=RECREATE)
    first = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    bench.edit("router", model="laya:en-better")
    second = bench.wait_ready("router", 120)["status"]["stableRevision"]["hash"]
    assert bench.told("router", "StableStopped") == 1
    assert bench.serving_pods("router", first) == []
    bench.wait_selected("router", second)
    # What cannot load is given up after a minute, and the revision that made room for it starts again.
    bench.edit("router", model="laya:en-no-load")
    bench.wait("router", "stopped", lambda dm: dm["status"].get("stableStoppedForRevision"), 60)
    wait_until("the stable's Pods to go", lambda: not bench.serving_pods("router", second), 60)
    rejected = bench.wait_rejected("router", 150)
    assert rejected["status"]["failedRevision"]["reason"] == "StartTimeout"
    bench.wait("router", "restored", lambda dm: reason(dm, "Ready") == "CandidateRejected", 90)
    wait_until("the restoration to be told", lambda: bench.told("router", "StableRestored"), 30)
    assert bench.selected("router") == second
    assert "stableStoppedForRevision" not in bench.model("router")["status"]


@side_by_side
def test_a_promoted_revision_that_turns_bad_is_rolled_back(bench: Bench) -> None:
    """Both strategies at once: each waits for the next look at the runtime, a minute away.

    Of two replicas one turns bad, so there is always one to answer: a single one could not until traffic is back.
    """
    bench.declare("swift", replicas=2)
    bench.declare("roomy", rollout=RECREATE)
    names = ("swift", "roomy")
    before = {name: bench.wait_ready(name)["status"]["stableRevision"]["hash"] for name in names}
    with no_failed_request(bench, "swift"):
        for name in names:
            bench.edit(name, model="laya:en-better")
        after = {name: bench.wait_ready(name, 150)["status"]["stableRevision"]["hash"] for name in names}
        for name in names:
            bench.wait_selected(name, after[name])
            turn_bad(bench, name, after[name])
        for name in names:
            model = bench.wait_rejected(name, 180)
            assert model["status"]["failedRevision"]["reason"] == "PostPromotionUnhealthy"
            assert model["status"]["stableRevision"]["hash"] == before[name]
            assert bench.told(name, "RolledBackAfterPromotion") == 1
            bench.wait_selected(name, before[name])
    assert bench.told("roomy", "StableRestored")
    wait_until("the failed revision to go", lambda: not bench.serving_pods("swift", after["swift"]), 60)
    assert phase(bench.model("roomy")) == "RolledBack"
