"""The provider plugin where the Pulumi engine looks for it."""

import os
from pathlib import Path

from tools.toolchain.builds import program_path
from tools.toolchain.versions import PROGRAMS


def prepare_pulumi_home(home: Path) -> None:
    """Install the kubernetes provider into a Pulumi home directory; does nothing where it is already there.

    Args:
        home: what ``PULUMI_HOME`` names; created when missing.

    Raises:
        NotBuiltError: the provider has not been built.
    """
    provider = PROGRAMS["kubernetes-provider"]
    built = program_path(provider.name)
    plugin = home / "plugins" / f"resource-kubernetes-{provider.version}" / provider.executable
    if plugin.is_symlink() and plugin.readlink() == built:
        return
    plugin.parent.mkdir(parents=True, exist_ok=True)
    # Replaced in one step, because an engine may be starting the plugin at this moment.
    link = plugin.with_name(f"{plugin.name}.{os.getpid()}")
    link.symlink_to(built)
    link.replace(plugin)
