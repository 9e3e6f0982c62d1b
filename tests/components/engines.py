"""Stacks of the real Pulumi engine, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pulumi import automation

Program = Callable[[], None]


@dataclass(frozen=True)
class Engine:
    """Stacks on a state backend in a directory of their own."""

    directory: Path

    def stack(self, program: Program) -> automation.Stack:
        """The one stack of this engine, with `program` as what it should contain."""
        backend = automation.ProjectBackend(f"file://{self.directory}")
        options = automation.LocalWorkspaceOptions(
            project_settings=automation.ProjectSettings("decisionmodel", runtime="python", backend=backend),
            pulumi_command=automation.PulumiCommand(root=str(self.directory / "cli")),
            pulumi_home=str(self.directory / "home"),
            env_vars={"PULUMI_CONFIG_PASSPHRASE": "only for tests", "PULUMI_SKIP_UPDATE_CHECK": "true"},
        )
        return automation.create_or_select_stack(
            "team-a.laya.6f1c2a34", project_name="decisionmodel", program=program, opts=options
        )

    def forget(self) -> None:
        """Lose the state of every stack."""
        shutil.rmtree(self.directory / ".pulumi")
