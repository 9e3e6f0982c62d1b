"""The image under every Pod's sandbox: a static BusyBox that sleeps. Built here, since nothing can be pulled.

It has a shell and the usual small programs, so it also serves tests that need some image.
"""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.errors import PrerequisiteError

_BUSYBOX = Path("/bin/busybox")
# What the kernel and what image configurations call the same processor.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_sandbox_archive(archive: Path) -> None:
    """Write the image as a docker-archive.

    Raises:
        PrerequisiteError: BusyBox is not installed.
    """
    if not _BUSYBOX.exists():
        raise PrerequisiteError(f"{_BUSYBOX} is missing: run python3 -m tools.toolchain packages")
    listing = subprocess.run([_BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    archive.write_bytes(sandbox_archive(_BUSYBOX.read_bytes(), listing.split(), architecture))


def sandbox_archive(busybox: bytes, applets: Sequence[str], architecture: str) -> bytes:
    """The docker-archive: equal input gives equal bytes, and so an image that is recognized when it is there.

    Args:
        busybox: the static executable.
        applets: the names it answers to.
        architecture: the processor, as image configurations call it.
    """
    layer = _tar({"bin/busybox": busybox}, links={f"bin/{applet}": "busybox" for applet in applets})
    image = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    configuration = json.dumps(image, sort_keys=True).encode()
    name = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [], "Layers": ["layer.tar"]}]
    return _tar({"manifest.json": json.dumps(manifest).encode(), name: configuration, "layer.tar": layer})


def _tar(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            if name in files:
                continue
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return buffer.getvalue()
