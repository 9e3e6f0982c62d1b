"""Bringing images into the cluster's containerd, under every name that a Pod may ask for."""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.archives import canonical_reference, read_archive
from tools.cluster.errors import ImageError
from tools.cluster.layout import CONTAINERD_SOCKET
from tools.cluster.namespaces import inside
from tools.cluster.processes import Process

_CTR = ("ctr", f"--address={CONTAINERD_SOCKET}", "--namespace=k8s.io")
_IMPORT_NAME = "decisionmodel.local/imported"
_MANAGED_LABEL = "io.cri-containerd.image=managed"
_NOTICE_SECONDS = 20.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ImageRecord:
    """One name in containerd's image store.

    Attributes:
        target: digest of the manifest that the name stands for.
        is_known_to_kubelet: whether the CRI plugin has taken notice of the name.
    """

    target: str
    is_known_to_kubelet: bool


def parse_image_list(listing: str) -> Mapping[str, ImageRecord]:
    """The image records in the output of ``ctr images ls``: columns REF, TYPE, DIGEST, …, with LABELS last."""
    rows = [line.split() for line in listing.splitlines()[1:] if line.strip()]
    return {row[0]: ImageRecord(row[2], _MANAGED_LABEL in row[-1].split(",")) for row in rows}


def load_image(node: Process, archive: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Import an archive, unless its image is there already, and give the image its names.

    A name with a digest is registered as it is, whatever the digest of the image: so a stand-in can take the place of
    a pinned image. Pods that use it need ``imagePullPolicy: IfNotPresent``.

    Args:
        node: the running node.
        archive: a docker-archive or an OCI archive with one image.
        names: references for the image; the archive's own by default.

    Returns:
        The names as containerd knows them.

    Raises:
        ImageError: the archive is unusable, it has no name, or containerd refused.
    """
    image = read_archive(archive)
    references = tuple(canonical_reference(name) for name in (names or image.names))
    if not references:
        raise ImageError(f"{archive} gives its image no name: pass at least one")
    if image.identity not in _records(node):
        _import(node, archive)
        _wait_for(node, {image.identity}, lambda records: image.identity in records)
    target = _records(node)[image.identity].target
    for reference in references:
        _name_image(node, image.identity, target, reference)
    _wait_for(node, references, lambda records: all(_is_usable(records, name) for name in references))
    return references


def _is_usable(records: Mapping[str, ImageRecord], name: str) -> bool:
    return name in records and records[name].is_known_to_kubelet


def _name_image(node: Process, identity: str, target: str, reference: str) -> None:
    present = _records(node).get(reference)
    if present is not None and present.target == target:
        return
    _ctr(node, "images", "tag", "--force", identity, reference)


def _records(node: Process) -> Mapping[str, ImageRecord]:
    return parse_image_list(_ctr(node, "images", "ls"))


def _import(node: Process, archive: Path) -> None:
    # Under a name made from the digest: the archive's own names may be those of another image by now.
    with archive.open("rb") as content:
        _ctr(node, "images", "import", "--digests", f"--base-name={_IMPORT_NAME}", "-", standard_input=content.fileno())


def _wait_for(node: Process, names: Iterable[str], is_reached: Callable[[Mapping[str, ImageRecord]], bool]) -> None:
    """Wait until the CRI plugin, which follows containerd's events, knows what was just done."""
    deadline = time.monotonic() + _NOTICE_SECONDS
    while not is_reached(_records(node)):
        if time.monotonic() > deadline:
            raise ImageError(f"containerd's CRI plugin took no notice of {', '.join(names)}")
        time.sleep(_POLL_SECONDS)


def _ctr(node: Process, *arguments: str, standard_input: int = subprocess.DEVNULL) -> str:
    command = (*_CTR, *arguments)
    run = subprocess.run(inside(node, *command), stdin=standard_input, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ImageError(f"{shlex.join(command)} failed: {run.stderr.strip()}")
    return run.stdout
