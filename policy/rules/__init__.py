"""Every rule, in the order in which findings and documents list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy.rule import Rule
from policy.rules import declaration, fields, images, placement, pods, registries, relations, sizing

RULES: Final[tuple[Rule, ...]] = (
    *declaration.RULES,
    *fields.RULES,
    *registries.RULES,
    *images.RULES,
    *pods.RULES,
    *sizing.RULES,
    *placement.RULES,
    *relations.RULES,
)
RULES_BY_ID: Final[Mapping[str, Rule]] = {rule.id: rule for rule in RULES}
