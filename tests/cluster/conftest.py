"""The platform on the cluster `test`, and a fresh namespace for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.cluster.observing import Bench
from tools.deploy import PulumiStack
from tools.environment import Environment
from tools.kubectl import wait_until

_numbers = count(1)


@pytest.fixture(scope="session")
def operator(environment: Environment, platform: PulumiStack) -> Environment:
    """The environment with the platform in it and no model of its own."""
    assert platform.stack == "dev"
    kubectl = environment.kubectl
    kubectl.delete("decisionmodel", "support-router")
    wait_until("its objects to be collected", lambda: not kubectl.list("pods"), 120)
    return environment


@pytest.fixture
def bench(operator: Environment, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A namespace for one test, and what it needs to look around in it."""
    namespace = f"t{next(_numbers)}"
    kubectl = operator.kubectl
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Bench(operator, namespace)
    kubectl.delete("namespace", namespace, "default", "--wait=false")


@pytest.fixture
def delete_later(bench: Bench) -> Iterator[Callable[[str, str], None]]:
    """Deletes objects at the end that would disturb other tests."""
    later: list[tuple[str, str]] = []
    yield lambda kind, name: later.append((kind, name))
    for kind, name in later:
        bench.kubectl.delete(kind, name, bench.namespace)
