"""Policy rules in the loop: a revision that breaks a mandatory one is never applied; what serves goes on serving."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy import read_configuration
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio

SCORING_IN_PROD = read_configuration(
    {"rules": {"evaluation-required": {"level": "mandatory", "environments": ["prod"]}}, "environments": {"prod": {}}},
    "prod",
)


def with_rules(bed: Bed) -> None:
    controller = replace(bed.options.controller, policy=SCORING_IN_PROD)
    bed.options = replace(bed.options, controller=controller)


async def test_nothing_of_a_revision_that_breaks_a_rule_is_applied(bed: Bed) -> None:
    await bed.kill()
    with_rules(bed)
    bed.start()
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Degraded"
    status, reason, message = bed.condition("Ready")
    assert (status, reason) == ("False", "PolicyViolation")
    assert "evaluation-required" in message
    assert bed.children == []


async def test_what_serves_was_admitted_once_and_only_its_successor_is_held_up(bed: Bed) -> None:
    stable = await bed.rolled_out()
    await bed.kill()
    with_rules(bed)
    bed.start()
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.condition("Degraded") == ("", "", "")
    bed.declare(model="laya:multilingual")
    await bed.settle()
    assert bed.condition("Degraded")[1] == "PolicyViolation"
    assert bed.status.phase == "Ready"
    assert bed.selected == stable
    assert all(stable in name or name == "router" for _, name in bed.children)
