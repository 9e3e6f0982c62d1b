"""Taking one cluster down: end its node process, and the kernel takes everything else with it."""

import shutil

from tools.cluster.cgroups import remove_control_group
from tools.cluster.errors import ClusterError
from tools.cluster.layout import DATA, Layout
from tools.cluster.namespaces import node_record
from tools.cluster.processes import Process, load_process, wait_until_dead

_DYING_SECONDS = 20.0


def stop(layout: Layout) -> None:
    """End every process of the cluster; its directory stays, and it can be started again with all it knew.

    Raises:
        ClusterError: a process does not die.
    """
    node = load_process(node_record(layout))
    if node is not None:
        node.kill()
        _bury(node)
    # These only wait for their processes inside and end with them; killing covers a node that never came up.
    for process in recorded_processes(layout).values():
        process.kill()
        _bury(process)
    remove_control_group(layout.control_group)
    shutil.rmtree(layout.records, ignore_errors=True)


def forget(layout: Layout) -> None:
    """Remove the cluster's objects and volumes; images, certificates and the port stay for the next time."""
    data = layout.on_host(DATA)
    if data.exists():
        shutil.rmtree(data)


def purge(layout: Layout) -> None:
    """Remove everything that was ever written for the cluster."""
    if layout.directory.exists():
        shutil.rmtree(layout.directory)


def recorded_processes(layout: Layout) -> dict[str, Process]:
    """The processes that the last start recorded, dead or alive, by component."""
    found = {path.stem: load_process(path) for path in sorted(layout.records.glob("*.json"))}
    return {name: process for name, process in found.items() if process is not None}


def _bury(process: Process) -> None:
    if not wait_until_dead(process, _DYING_SECONDS):
        raise ClusterError(f"process {process.pid} does not die: look at /proc/{process.pid}/stack")
