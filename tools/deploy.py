"""The platform on a local cluster, by a real `pulumi up`.

What a person would set by hand is set here: the CLI's home with the kubernetes provider, a file backend under
`.local/<cluster>`, and a project beside it whose configuration names the image just built.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import yaml

from reconciler.driver.lock_owners import lives
from reconciler.driver.recovery import parse_lock_owners
from reconciler.driver.sessions import session_members
from tools import toolchain
from tools.cluster.clusters import Cluster
from tools.cluster.errors import ClusterError
from tools.command_line import exit_code
from tools.environment import Progress, prepare, start
from tools.images import ImageBuildError
from tools.kubectl import KubectlError

ROOT = Path(__file__).parent.parent
_LANGUAGE_HOST = ROOT / "tools" / "language_host"

_GRACE_SECONDS = 30.0
"""For the CLI to stop its provider, save the state and drop its lock."""
_SHOWN_LINES = 40


class DeployError(Exception):
    """The Pulumi CLI failed; the message is what it said."""


def run_pulumi(
    directory: Path,
    environment: Mapping[str, str],
    *arguments: str,
    timeout: float,
    grace_seconds: float = _GRACE_SECONDS,
) -> str:
    """Run the CLI in a project's directory and return what it printed.

    Args:
        directory: The project's.
        environment: The CLI's variables.
        arguments: Its command line.
        timeout: Seconds after which it is interrupted, as Ctrl-C does.
        grace_seconds: How long an interrupted CLI has to save its state before it is killed.

    Raises:
        DeployError: It failed, or was not done in time.
    """
    command = [str(toolchain.program_path("pulumi")), *arguments, "--non-interactive", "--color=never"]
    # Files, since a provider that outlives the CLI would hold pipes open.
    with TemporaryFile("w+") as printed, TemporaryFile("w+") as complaints:
        # In a session of its own it gets one interrupt, from us; a terminal's would come on top, and the second one
        # makes it give up its state.
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=complaints,
            start_new_session=True,
        )
        done = _wait(process, timeout, grace_seconds)
        said = _content(printed) + _content(complaints)
        if not done:
            raise DeployError(
                f"pulumi {arguments[0]} was not done after {timeout:g} s and was interrupted:\n{_end_of(said)}\n"
                "Look at what is not ready (kubectl get pods -A, then kubectl describe) and run the same again."
            )
        if process.returncode != 0:
            raise DeployError(f"pulumi {arguments[0]} failed:\n{said}")
        return _content(printed)


def _wait(process: subprocess.Popen[bytes], timeout: float, grace_seconds: float) -> bool:
    """Wait for the CLI, and interrupt it when the time is over or Ctrl-C is pressed; return whether it was done."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        _interrupt(process, grace_seconds)
        return False
    except KeyboardInterrupt:
        _interrupt(process, grace_seconds)
        raise
    return True


def _interrupt(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """End a CLI that is at work, so that it leaves no lock if it can; another Ctrl-C cuts the grace short."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(grace_seconds)
    # Its provider and its program have process groups of their own, but are of its session.
    for member in session_members(process.pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.wait()


def _content(output: IO[str]) -> str:
    output.seek(0)
    return output.read()


def _end_of(text: str) -> str:
    return "\n".join(text.splitlines()[-_SHOWN_LINES:])


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
        return self._operate("up", "--skip-preview", "--refresh", "--suppress-outputs")

    def destroy(self) -> str:
        """Take the environment off the cluster.

        Raises:
            DeployError: It failed.
        """
        return self._operate("destroy", "--skip-preview")

    def _operate(self, operation: str, *flags: str) -> str:
        """Change the stack; a lock that a killed process left is dropped first, since nobody else would."""
        arguments = (operation, f"--stack={self.stack}", "--yes", *flags)
        try:
            return self.pulumi(*arguments)
        except DeployError as error:
            owners = parse_lock_owners(str(error))
            if not owners or any(lives(owner) for owner in owners):
                raise
        self.pulumi("cancel", f"--stack={self.stack}", "--yes")
        return self.pulumi(*arguments)

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

    def deploy() -> int:
        environment = start(arguments.cluster, prepare(progress), progress)
        print(PulumiStack(environment.cluster, arguments.stack).up(environment.images.reconciler.name))
        return 0

    failures = (ClusterError, DeployError, ImageBuildError, KubectlError, toolchain.ToolchainError)
    return exit_code("deploy", deploy, *failures, next_step="make deploy goes on with what is built and running.")


if __name__ == "__main__":
    sys.exit(main())
