"""What an environment's configuration says about its reconciler's rules, with the file that it names."""

from __future__ import annotations

from pathlib import Path

from components.configuration import PolicyRules
from components.platform.policy import EnforcedPolicy
from policy.file import read_usable


def read_enforced(rules: PolicyRules, directory: Path, stack: str) -> EnforcedPolicy | None:
    """Return the rules that an environment's reconciler is to enforce; None where its configuration names no file.

    Args:
        rules: What the configuration says.
        directory: What the file's name is relative to, `stacks/` of the project.
        stack: The environment's stack.

    Raises:
        PolicyConfigurationError: The file cannot be used there.
    """
    if rules.file is None:
        return None
    environment = rules.environment or stack
    return EnforcedPolicy(read_usable(directory / rules.file, environment), environment)
