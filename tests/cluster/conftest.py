"""The platform on the cluster `test`, and a fresh namespace for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.observing import Bench, fresh_namespace
from tools.deploy import PulumiStack
from tools.environment import Environment
from tools.kubectl import wait_until


@pytest.fixture(scope="session")
def operator(environment: Environment, platform: PulumiStack) -> Environment:
    """The environment with the platform in it and no model of its own."""
    assert platform.stack == "dev"
    kubectl = environment.kubectl
    kubectl.delete("decisionmodel", "support-router")
    wait_until("its objects to be collected", lambda: not kubectl.list("pods"), 120)
    return environment


@pytest.fixture
def bench(operator: Environment) -> Iterator[Bench]:
    """A namespace for one test, and what it needs to look around in it."""
    with fresh_namespace(operator) as bench:
        yield bench


@pytest.fixture
def delete_later(bench: Bench) -> Iterator[Callable[[str, str], None]]:
    """Deletes objects at the end that would disturb other tests."""
    later: list[tuple[str, str]] = []
    yield lambda kind, name: later.append((kind, name))
    for kind, name in later:
        bench.kubectl.delete(kind, name, bench.namespace)
