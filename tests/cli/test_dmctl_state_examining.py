"""Looking at stacks while the reconciler works on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.state.examining import Surroundings, examine
from reconciler.driver import DriverSettings
from reconciler.driver.errors import StateCommandError
from reconciler.driver.states import States

pytestmark = pytest.mark.anyio

STACK = "shop.fraud.1a2b3c4d"


def states(directory: Path, *, drops: bool) -> States:
    """Open a backend with one stack, which the CLI does not find, or the reconciler drops just before it looks."""
    checkpoint = directory / "state/.pulumi/stacks/decisionmodel" / f"{STACK}.json.gz"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    cli = directory / "pulumi"
    drop = f'rm "{checkpoint}"' if drops else ":"
    cli.write_text(f"#!/bin/sh\n{drop}\necho \"error: no stack named '{STACK}' found\" >&2\nexit 6\n")
    cli.chmod(0o755)
    settings = DriverSettings(
        pulumi=cli,
        pulumi_home=directory / "home",
        backend_url=f"file://{directory}/state",
        work_directory=directory / "work",
    )
    return States(settings)


async def test_a_stack_that_is_dropped_meanwhile_has_no_findings(tmp_path: Path) -> None:
    examined = await examine(states(tmp_path, drops=True), STACK, Surroundings(live=frozenset()))
    assert examined.deployment is None
    assert examined.findings == ()


async def test_a_stack_that_is_there_and_cannot_be_exported_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateCommandError, match="no stack named"):
        await examine(states(tmp_path, drops=False), STACK, Surroundings())
