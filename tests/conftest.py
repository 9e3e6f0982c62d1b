"""What every test shares: the Hypothesis profile, and the real cluster for tests marked `cluster`."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tools.deploy import PulumiStack
from tools.environment import Environment, prepare, start
from tools.kubectl import Kubectl
from tools.standin.registry import Registry

# Wall-clock limits would fail good code on a busy machine; what a test shows never depends on speed.
_SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples for everybody as long as the code's own literals stay, from which a few are drawn, and half as many
# as usual: a rare one must not fail a change that has nothing to do with it. HYPOTHESIS_PROFILE=thorough looks for
# those, longer and elsewhere each time.
settings.register_profile("shared", _SHARED, max_examples=50, derandomize=True)
settings.register_profile("thorough", _SHARED, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "shared"))


_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
CLUSTER = "test" if _WORKER == "gw0" else f"test-{_WORKER}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person look at the cluster after a failed test."""
    parser.addoption("--keep-cluster", action="store_true", help="leave the clusters running")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what collecting imports, which lives to the end: a tenth of all tests' time."""
    gc.disable()
    # With nothing old left to compare with, it would look through everything much more often than in a program.
    gc.set_threshold(20_000, 20, 50)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """The stand-in registry; each bed puts it back in order."""
    with Registry() as running:
        yield running


@pytest.fixture(scope="session")
def environment(pytestconfig: pytest.Config) -> Iterator[Environment]:
    """A cluster with the images and the registry in it, but without the platform; taken down at the end.

    Tests that run side by side have a cluster each: most of them wait for clocks, and not for the machine.
    """
    environment = start(CLUSTER, prepare(print), print)
    yield environment
    if not pytestconfig.getoption("--keep-cluster"):
        environment.cluster.down()


@pytest.fixture(scope="session")
def kubeconfig(environment: Environment) -> Path:
    """The kubeconfig of the cluster, as its administrator."""
    return environment.cluster.kubeconfig


@pytest.fixture(scope="session")
def kubectl(environment: Environment) -> Kubectl:
    """Run kubectl on the cluster."""
    return environment.kubectl


@pytest.fixture(scope="session")
def platform(environment: Environment) -> PulumiStack:
    """The platform on the cluster, installed by a real `pulumi up`."""
    stack = PulumiStack(environment.cluster, "dev")
    stack.up(environment.images.reconciler.name)
    return stack
