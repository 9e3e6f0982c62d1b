"""What the reconciler's flags change, on a reconciler that is restarted with them, and then without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.flags import restarted_with
from tests.cluster.observing import Bench, fresh_namespace, no_failed_request, reason
from tools.environment import Environment
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

OLDER, NEWER = "0.11.0", "0.12.0"
QUEUED = ("alpha", "beta", "gamma")


@pytest.fixture(scope="module")
def bench(operator: Environment) -> Iterator[Bench]:
    """A namespace with models that serve before the reconciler has any of the flags."""
    with fresh_namespace(operator) as bench:
        bench.declare("router", runtimeVersion=OLDER)
        for name in QUEUED:
            bench.declare(name, rollout={"stabilization": "0s"})
        for name in ("router", *QUEUED):
            bench.wait_ready(name, 150)
        yield bench


def test_only_so_many_rollouts_are_under_way_at_once(bench: Bench) -> None:
    with no_failed_request(bench, "gamma"), restarted_with(bench, "--max-concurrent-rollouts=1"):
        most, order = 0, list[str]()

        def all_done() -> bool:
            nonlocal most
            models = bench.kubectl.list("decisionmodels", bench.namespace)
            under_way = [model["metadata"]["name"] for model in models if "candidateRevision" in model["status"]]
            most = max(most, len(under_way))
            order.extend(name for name in under_way if name not in order)
            return len([model for model in models if is_serving(model, "laya:en-better")]) == len(QUEUED)

        for name in QUEUED:
            bench.edit(name, model="laya:en-better")
        queued = bench.wait("gamma", "queued", lambda dm: reason(dm, "Ready") == "RolloutQueued", 60)
        assert phase(queued) == "Pending"
        wait_until("all of them to be rolled out", all_done, 240, every=0.3)
        assert most == 1
        assert len(order) == 3


def is_serving(model: Object, tag: str) -> bool:
    return bool(model["status"].get("stableRevision", {}).get("model") == tag and phase(model) == "Ready")


@pytest.fixture(scope="module")
def older(bench: Bench) -> Object:
    """The model on an older runtime as it was while its spec asked for that; now it names no runtime."""
    older = bench.wait_ready("router")
    bench.edit("router", runtimeVersion=None)
    return older


@pytest.fixture(scope="module")
def unwatched(bench: Bench) -> Iterator[Bench]:
    """A namespace that the reconciler, once it has its flags, is not to watch."""
    with fresh_namespace(bench.environment) as unwatched:
        yield unwatched


@pytest.fixture(scope="module")
def flagged(bench: Bench, older: Object) -> Iterator[ExitStack]:
    """A reconciler that follows its own default and watches one namespace; without its flags once this is closed."""
    with ExitStack() as flagged:
        flagged.enter_context(no_failed_request(bench, "router"))
        flags = ("--runtime-version-policy=FollowOperator", f"--watch-namespaces={bench.namespace}")
        flagged.enter_context(restarted_with(bench, *flags))
        yield flagged


@pytest.fixture(scope="module")
def unflagged(flagged: ExitStack) -> None:
    """The reconciler without those flags again."""
    flagged.close()


def test_a_newer_default_runtime_is_told_and_by_itself_rolls_nothing(bench: Bench, older: Object) -> None:
    assert reason(older, "RuntimeUpdateAvailable") == "RuntimeUpdateAvailable"
    assert OLDER in condition(older, "RuntimeUpdateAvailable")["message"]
    same = bench.wait_ready("router")
    assert same["status"]["stableRevision"] == older["status"]["stableRevision"]


def test_a_newer_default_runtime_rolls_what_follows_it(bench: Bench, flagged: ExitStack) -> None:
    bench.wait("router", "on the newer runtime", runs(NEWER), 180)


def test_only_watched_namespaces_are_acted_on(bench: Bench, unwatched: Bench, flagged: ExitStack) -> None:
    unwatched.declare("router")
    bench.declare("watched")
    bench.wait_ready("watched")
    assert "status" not in unwatched.model("router")
    assert unwatched.children("router") == {}


def test_what_was_not_watched_is_acted_on_once_it_is(unwatched: Bench, unflagged: None) -> None:
    unwatched.wait_ready("router", 120)


def test_what_followed_stays_where_it_is_once_it_is_pinned_again(bench: Bench, unflagged: None) -> None:
    assert bench.wait_ready("router", 60)["status"]["stableRevision"]["runtimeVersion"] == NEWER


def runs(version: str) -> Callable[[Object], bool]:
    def holds(model: Object) -> bool:
        return bool(model["status"].get("stableRevision", {}).get("runtimeVersion") == version)

    return holds
