"""The platform on the cluster `test`, and a fresh namespace for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from tests.cluster.observing import Bench, fresh_namespace
from tests.cluster.side_by_side import AT_ONCE
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


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    """Carries out a module's scenarios side by side; none of them outlives the module."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield threads


@pytest.fixture
def delete_later(bench: Bench) -> Iterator[Callable[[str, str], None]]:
    """Deletes objects at the end that would disturb other tests."""
    later: list[tuple[str, str]] = []
    yield lambda kind, name: later.append((kind, name))
    for kind, name in later:
        bench.kubectl.delete(kind, name, bench.namespace)
