"""Everything about its surroundings that the driver needs to know, fixed at construction."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.driver.state_rules import StateRules


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """Paths, sizes and limits.

    Attributes:
        pulumi: The CLI executable.
        pulumi_home: Holds `plugins/`; may be read-only but for `workspaces/` and (to keep logs) `logs/`.
        backend_url: `file://…` or `s3://…`; credentials come from the environment, or from the
            Secret's directory that it names (`bucket_credentials`), never from here.
        work_directory: Writable, for this driver alone. Its content may vanish between restarts.
        workers: Operations at once. More than cores only adds latency (0.25 GiB each while running).
        passphrase_file: File with the state's passphrase. None: the empty passphrase, right as long as the state
            holds no secret.
        project: The Pulumi project all stacks belong to.
        grace_seconds: How long the CLI may take to save its state after SIGTERM before it is killed.
        plugins: Provider plugins that must be present in the version of their `pulumi-<name>` distribution.
        preload: Modules every worker imports before its first operation.
        operations_per_worker: Operations after which a worker process is replaced.
        history_entries: Entries of history kept for each stack.
        state_rules: What states may record; nothing is run on one that records more. None where only this process can
            write them.
    """

    pulumi: Path
    pulumi_home: Path
    backend_url: str
    work_directory: Path
    workers: int = field(default_factory=_usable_cores)
    passphrase_file: Path | None = None
    project: str = "decisionmodel"
    grace_seconds: float = 10.0
    plugins: tuple[str, ...] = ("kubernetes",)
    preload: tuple[str, ...] = ()
    operations_per_worker: int = 200
    history_entries: int = 10
    state_rules: StateRules | None = None

    def __post_init__(self) -> None:
        if self.workers < 1 or self.operations_per_worker < 1 or self.history_entries < 0:
            raise ValueError("workers and operations_per_worker must be at least 1, history_entries at least 0")

    @property
    def project_directory(self) -> Path:
        """Where the CLI runs: holds `Pulumi.yaml` and, one a stack, the encryption salts."""
        return self.work_directory / "project"

    @property
    def temporary_directory(self) -> Path:
        """Parent of every operation's own TMPDIR."""
        return self.work_directory / "tmp"
