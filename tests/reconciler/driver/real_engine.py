"""The driver with the real CLI on a backend of the test's own, without a cluster: components need no provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from reconciler.driver import DriverSettings, FailureReason, Outcome, StackDriver
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.conftest import make_operation
from tests.reconciler.driver.sessions import with_driver
from tools.toolchain.builds import program_path

Answer = TypeVar("Answer")
STACK = "shop.fraud.1a2b3c4d"


class Engine:
    """The real CLI on a backend of the test's own: a directory, if none is given."""

    def __init__(self, root: Path, backend_url: str | None = None) -> None:
        self.state = root / "state"
        self.state.mkdir(parents=True)
        self.checkpoint = self.state / f".pulumi/stacks/decisionmodel/{STACK}.json.gz"
        self.locks = self.state / f".pulumi/locks/organization/decisionmodel/{STACK}"
        self.settings = DriverSettings(
            pulumi=program_path("pulumi"),
            pulumi_home=root / "home",
            backend_url=backend_url or f"file://{self.state}",
            work_directory=root / "work",
            workers=1,
            plugins=(),
            grace_seconds=5,
        )

    def run(self, use: Callable[[StackDriver], Coroutine[Any, Any, Answer]], **changes: Any) -> Answer:
        return asyncio.run(with_driver(replace(self.settings, **changes), use))

    def up(self, count: int = 2, **changes: Any) -> Outcome:
        return self.run(lambda driver: driver.run(up(count)), **changes)


def up(count: int) -> Any:
    return make_operation(program=partial(driver_programs.declare_components, count))


def reason_of(outcome: Outcome) -> FailureReason | None:
    return outcome.failure.reason if outcome.failure else None
