"""The platform as one file for `kubectl apply -f`, for clusters without Pulumi.

The objects are those that `pulumi up` declares, rendered by the same functions; models are not among them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from components.configuration import ConfigurationError, PlatformConfiguration, read_configuration
from components.platform.manifests import platform_manifests
from components.platform.policy import EnforcedPolicy
from policy import PolicyConfigurationError
from policy.enforced import read_enforced
from tools.command_line import exit_code

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / ".local" / "install.yaml"
_STACKS = ROOT / "stacks"
_PROJECT = "decisionmodel"


class _PlainDumper(yaml.SafeDumper):
    """Writes values out where they stand: anchors would make a manifest hard to read and to edit."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the library's signature
        return True


def install_yaml(configuration: PlatformConfiguration, policy: EnforcedPolicy | None = None) -> str:
    """Return the platform as a stream of YAML documents, in the order they must be applied in."""
    manifests = platform_manifests(configuration, policy)
    return yaml.dump_all(manifests, Dumper=_PlainDumper, sort_keys=False, explicit_start=True, width=120)


def stack_policy(stack: str | None, configuration: PlatformConfiguration) -> EnforcedPolicy | None:
    """Return the rules that an environment's reconciler enforces; none when no stack is named.

    Raises:
        PolicyConfigurationError: the file that the configuration names cannot be used.
    """
    return None if stack is None else read_enforced(configuration.policy, _STACKS, stack)


def stack_configuration(stack: str | None, image: str | None) -> PlatformConfiguration:
    """Return an environment's configuration, or every default when no stack is named, with this image if there is one.

    Raises:
        ConfigurationError: it cannot be used; without a stack, an image is needed.
        OSError: there is no file for the stack.
    """
    values: dict[str, Any] = {}
    if stack is not None:
        file = _STACKS / f"Pulumi.{stack}.yaml"
        values = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    named = {} if image is None else {f"{_PROJECT}:image": image}
    return read_configuration(_PROJECT, stack or "<environment>", values | named)


def main(arguments: list[str] | None = None) -> int:
    """Write the file; the exit code is 0 when it is there."""
    parser = argparse.ArgumentParser(prog="python -m tools.install_yaml", description=__doc__)
    parser.add_argument("--image", help="the reconciler's image; needed without --stack")
    parser.add_argument("--stack", help="the environment to configure it as; every default otherwise")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"the file ({OUTPUT.relative_to(ROOT)})")
    given = parser.parse_args(arguments)
    return exit_code("install-yaml", lambda: _write(given), ConfigurationError, PolicyConfigurationError)


def _write(given: argparse.Namespace) -> int:
    configuration = stack_configuration(given.stack, given.image)
    text = install_yaml(configuration, stack_policy(given.stack, configuration))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(text, encoding="utf-8")
    print(given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
