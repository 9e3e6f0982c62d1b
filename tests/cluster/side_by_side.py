"""Scenarios that mostly wait for clocks, carried out at the same time: each in a thread and a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import wraps
from inspect import signature

import pytest

from tests.cluster.observing import Bench, fresh_namespace
from tools.environment import Environment

Scenario = Callable[[Bench], None]

AT_ONCE = 3
"""Scenarios under way at once: two cores keep up with them."""


class SideBySide:
    """Makes tests of a module's scenarios: the first of them begins all, and each ends and fails as its own one does.

    A test that needs the cluster for itself is defined above the first or below the last of them.
    """

    def __init__(self) -> None:
        self._scenarios: dict[str, Scenario] = {}
        self._under_way: dict[str, Future[None]] = {}

    def __call__(self, scenario: Scenario) -> Callable[..., None]:
        """Make a test of a scenario."""
        name = scenario.__name__
        self._scenarios[name] = scenario

        def test(request: pytest.FixtureRequest, operator: Environment, threads: Executor) -> None:
            self.begin(request, operator, threads)
            self._under_way[name].result()

        # pytest asks the signature for fixtures, and what is wrapped for the place where a failure's story begins.
        test.__signature__ = signature(test)  # type: ignore[attr-defined]  # unknown to mypy
        return wraps(scenario)(test)

    def begin(self, request: pytest.FixtureRequest, operator: Environment, threads: Executor) -> None:
        """Begin the selected scenarios unless they are under way: by a fixture, where other tests wait as well."""
        if self._under_way:
            return
        selected = {item.name for item in request.session.items}
        for name, scenario in self._scenarios.items():
            if name in selected:
                self._under_way[name] = threads.submit(_carry_out, scenario, operator)


def _carry_out(scenario: Scenario, operator: Environment) -> None:
    with fresh_namespace(operator) as bench:
        scenario(bench)
