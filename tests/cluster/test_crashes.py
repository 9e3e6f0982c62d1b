"""Nothing that dies at any moment changes how a rollout ends, and nobody who asks notices."""

from __future__ import annotations

import os
import re
import secrets
from random import Random

import pytest

from tests.cluster.killing import Killer, Victim
from tests.cluster.observing import Bench, no_failed_request
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

SECOND = "laya:multilingual"
# A tag pinned to bytes that its registry does not serve.
BROKEN = {"model": "laya:en-worse", "digest": "0" * 64}
PATIENCE = 300.0
"""Restarts of a container that keeps dying come later and later, and each waits for the Lease of the one before."""


def test_ten_kills_end_like_none(bench: Bench) -> None:
    seed = int(os.environ.get("CRASH_SEED") or secrets.randbelow(10**6))
    print(f"CRASH_SEED={seed} repeats the choice of moments")  # noqa: T201  # shown when the test fails
    killer = Killer(bench.environment, Random(seed))  # noqa: S311  # moments, no secrets
    killer.begin_unrestarted()
    calm = undisturbed(bench, "calm")

    bench.declare("stormy")
    killer.kill(Victim.PROVIDER, Victim.CLI, Victim.RECONCILER)
    first = bench.wait_ready("stormy", PATIENCE)["status"]["stableRevision"]["hash"]
    wait_until("the Service to select it", lambda: bench.selected("stormy") == first, 60)
    with no_failed_request(bench, "stormy"):
        bench.edit("stormy", model=SECOND)
        killer.kill(Victim.CLI, Victim.PROVIDER, Victim.RECONCILER)
        wait_until("the candidate to start", lambda: len(bench.children("stormy")["Deployment"]) == 2, PATIENCE)
        killer.wait_until_idle()
        # The next operation is the one that moves traffic.
        killer.kill(Victim.CLI, Victim.RECONCILER)
        second = bench.wait_ready("stormy", PATIENCE)["status"]["stableRevision"]["hash"]
        wait_until("traffic to move", lambda: bench.selected("stormy") == second, PATIENCE)
        bench.edit("stormy", **BROKEN)
        killer.kill(Victim.PROVIDER, Victim.RECONCILER)
        rejected = bench.wait_rejected("stormy", PATIENCE)
        wait_until_settled(bench, "stormy", second)

    assert len(killer.kills) == 10
    assert shape(bench, "stormy") == shape(bench, "calm")
    assert ending(rejected) == ending(calm)
    assert bench.selected("stormy") == second
    assert bench.told("stormy", "Promoted") == 2


def undisturbed(bench: Bench, name: str) -> Object:
    """Take a model through the same rollouts with nobody dying, and return its last state."""
    bench.declare(name)
    bench.wait_ready(name)
    bench.edit(name, model=SECOND)
    stable = bench.wait_ready(name)["status"]["stableRevision"]["hash"]
    wait_until("traffic to move", lambda: bench.selected(name) == stable, 60)
    bench.edit(name, **BROKEN)
    rejected = bench.wait_rejected(name, 180)
    wait_until_settled(bench, name, stable)
    return rejected


def wait_until_settled(bench: Bench, name: str, stable: str) -> None:
    """Wait until what is left belongs to the stable revision alone."""

    def others() -> list[str]:
        names = [each for names in bench.children(name).values() for each in names]
        return [each for each in names if each != name and stable not in each]

    wait_until("everything of other revisions to go", lambda: not others(), PATIENCE)


def shape(bench: Bench, name: str) -> dict[str, list[str]]:
    """Return the names of a model's objects without what differs from model to model and from Pod to Pod."""
    return {
        kind: sorted(_without_suffix(kind, each).replace(name, "MODEL", 1) for each in names)
        for kind, names in bench.children(name).items()
    }


def _without_suffix(kind: str, name: str) -> str:
    if kind == "ReplicaSet":
        return name.rpartition("-")[0]
    # Pods of a Job end in five characters of chance, those of a Deployment in their ReplicaSet's suffix as well.
    return re.sub(r"(?<=[0-9a-f]{16})(-[a-z0-9]+){1,2}$", "", name) if kind == "Pod" else name


def ending(model: Object) -> dict[str, object]:
    """Return what a user sees of a model at the end."""
    status = model["status"]
    return {
        "phase": phase(model),
        "stable": status["stableRevision"]["hash"],
        "failed": status["failedRevision"]["hash"],
        "candidate": status.get("candidateRevision"),
        "replicas": status["replicas"],
        "conditions": {type_: condition(model, type_)["status"] for type_ in ("Ready", "Degraded", "Resolved")},
        "reason": condition(model, "Degraded")["reason"],
    }
