"""Rules over what is about to be applied, and the CrossGuard pack that wraps them.

`check` judges plain manifests: DecisionModels and the objects rendered for them. It is pure, so the same rules run in
a preview (`policy.pack`), in CI (`dmctl policy check`) and in the reconciler before it applies anything.
"""

from policy.checking import blocking, check
from policy.configuration import Configuration, read_configuration, unnamed_environments
from policy.errors import PolicyConfigurationError, PolicyError
from policy.finding import Finding, ObjectReference
from policy.rule import Level, Rule
from policy.rules import RULES

__all__ = [
    "RULES",
    "Configuration",
    "Finding",
    "Level",
    "ObjectReference",
    "PolicyConfigurationError",
    "PolicyError",
    "Rule",
    "blocking",
    "check",
    "read_configuration",
    "unnamed_environments",
]
