"""The programs behind the local platform: Pulumi with its provider, Kubernetes and CoreDNS, built from Go modules.

Runs before the Python environment exists, so it knows the standard library only. ``python3 -m tools.toolchain`` is
its command line; `build`, `program_path` and `prepare_pulumi_home` are what the other tools import.
"""

from tools.toolchain.builds import build, kubernetes_component, program_path
from tools.toolchain.errors import BuildFailedError, NotBuiltError, ToolchainError, ToolMissingError
from tools.toolchain.plugins import prepare_pulumi_home
from tools.toolchain.pypi import kubectl

__all__ = [
    "BuildFailedError",
    "NotBuiltError",
    "ToolMissingError",
    "ToolchainError",
    "build",
    "kubectl",
    "kubernetes_component",
    "prepare_pulumi_home",
    "program_path",
]
