"""The first process of a cluster: it holds the namespaces, and everything else lives inside them.

Started by `tools.cluster.namespaces` under ``unshare``, as process 1 of a fresh PID namespace with private network
and mount namespaces. When it dies, by whatever signal, the kernel ends every process of the cluster, and with them
go all mounts and network interfaces: nothing of a cluster can outlive its node.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tools.cluster.layout import HOME
from tools.cluster.processes import identify

# kubelet sets these for the whole machine; here it finds private files that already say what it wants.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main(directory: Path, record: Path) -> None:
    """Set up the mounts, announce this process, then bury the dead until killed.

    Args:
        directory: the cluster's directory on the host.
        record: where the process record goes once everything is mounted.
    """
    # Still the host's /proc, and so the id by which the host knows this process.
    this = identify(int(Path("/proc/self").readlink().name))
    if this is None:
        raise RuntimeError("/proc does not show this process")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _mount_private_directories(directory)
    _hide_kernel_settings()
    this.save(HOME / record.relative_to(directory))
    while True:
        signal.sigwait({signal.SIGCHLD})
        _bury_children()


def _mount_private_directories(directory: Path) -> None:
    # The directory is bound before /run and /var are hidden, because the work tree may lie below either.
    staging = Path("/mnt")
    _mount("--bind", str(directory), str(staging))
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for path in (HOME, Path("/run/var/upper"), Path("/run/var/work")):
        path.mkdir(parents=True)
    _mount("--move", str(staging), str(HOME))
    # Kubernetes and CNI write to fixed places below /var.
    _mount("-t", "overlay", "-o", "lowerdir=/var,upperdir=/run/var/upper,workdir=/run/var/work", "overlay", "/var")
    _mount("-t", "proc", "proc", "/proc")


def _hide_kernel_settings() -> None:
    for setting, value in _KERNEL_SETTINGS.items():
        private = Path("/run/kernel-settings") / setting
        private.parent.mkdir(parents=True, exist_ok=True)
        private.write_text(f"{value}\n")
        _mount("--bind", str(private), f"/proc/sys/{setting}")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _bury_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
