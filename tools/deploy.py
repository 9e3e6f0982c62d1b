"""The platform on a local cluster, by a real `pulumi up`.

What a person would set by hand is set here: the CLI's home with the kubernetes provider, a file backend under
`.local/<cluster>`, and a project beside it whose configuration names the image just built.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools import toolchain
from tools.cluster.clusters import Cluster
from tools.cluster.errors import ClusterError
from tools.environment import Progress, prepare, start
from tools.images import ImageBuildError
from tools.kubectl import KubectlError

ROOT = Path(__file__).parent.parent
_LANGUAGE_HOST = ROOT / "tools" / "language_host"


class DeployError(Exception):
    """The Pulumi CLI failed; the message is what it said."""


def run_pulumi(directory: Path, environment: Mapping[str, str], *arguments: str, timeout: float) -> str:
    """Run the CLI in a project's directory and return what it printed.

    Raises:
        DeployError: It failed.
    """
    command = [str(toolchain.program_path("pulumi")), *arguments, "--non-interactive", "--color=never"]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise DeployError(f"pulumi {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class PulumiStack:
    """One environment's stack on one local cluster."""

    cluster: Cluster
    stack: str

    @property
    def directory(self) -> Path:
        """Where its home, its state and its project are."""
        return self.cluster.kubeconfig.parent / "pulumi"

    def pulumi(self, *arguments: str, timeout: float = 300) -> str:
        """Run the CLI on this stack's backend and return what it printed.

        Raises:
            DeployError: It failed.
        """
        return run_pulumi(self.directory, self._environment(), *arguments, timeout=timeout)

    def up(self, image: str, **settings: Any) -> str:
        """Converge the environment with this image of the reconciler; return what the CLI printed.

        Args:
            image: The reconciler's.
            settings: Keys that differ from the committed configuration, each as a whole.

        Raises:
            DeployError: It failed.
        """
        (self.directory / "state").mkdir(parents=True, exist_ok=True)
        toolchain.prepare_pulumi_home(self.directory / "home")
        self._write_project({"image": image, **settings})
        self.pulumi("stack", "select", self.stack, "--create")
        return self.pulumi("up", f"--stack={self.stack}", "--yes", "--skip-preview", "--refresh", "--suppress-outputs")

    def destroy(self) -> str:
        """Take the environment off the cluster.

        Raises:
            DeployError: It failed.
        """
        return self.pulumi("destroy", f"--stack={self.stack}", "--yes", "--skip-preview")

    def _write_project(self, settings: Mapping[str, Any]) -> None:
        """Write a project that runs the program with these settings; the committed files stay as they are."""
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
        (self.directory / "Pulumi.yaml").write_text(
            yaml.safe_dump(project | {"main": str(ROOT), "stackConfigDir": "."}), encoding="utf-8"
        )
        committed = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{self.stack}.yaml").read_text(encoding="utf-8"))
        committed["config"] |= {f"decisionmodel:{key}": value for key, value in settings.items()}
        written = self.directory / f"Pulumi.{self.stack}.yaml"
        # The CLI keeps the salt of the stack's encryption in that file.
        known = yaml.safe_load(written.read_text(encoding="utf-8")) if written.exists() else {}
        written.write_text(yaml.safe_dump({**(known or {}), **committed}), encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{_LANGUAGE_HOST}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "PULUMI_HOME": str(self.directory / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.directory / 'state'}",
            # The environment's state holds no secret: Secrets are referenced by name.
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        }


def main() -> int:
    """Deploy; the exit code is 0 when the platform is there."""
    parser = argparse.ArgumentParser(prog="python -m tools.deploy", description=__doc__)
    parser.add_argument("--cluster", default="demo", help="the local cluster, started if need be (demo)")
    parser.add_argument("--stack", default="dev", help="the environment (dev)")
    arguments = parser.parse_args()
    progress: Progress = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731 - one line, one use
    try:
        environment = start(arguments.cluster, prepare(progress), progress)
        print(PulumiStack(environment.cluster, arguments.stack).up(environment.images.reconciler.name))
    except (ClusterError, DeployError, ImageBuildError, KubectlError, toolchain.ToolchainError) as error:
        print(f"deploy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
