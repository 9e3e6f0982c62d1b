"""Volumes for claims: one directory of the node per PersistentVolumeClaim, as a `local` PersistentVolume.

Unlike host-path volumes these get the ownership that a Pod's fsGroup asks for. Runs inside the cluster as a process of
its own. The decision is pure (`plan`); the loop around it acts on the whole state whenever anything changed, so it
does not matter what it missed.
"""

import asyncio
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
from lightkube import ALL_NS, ApiError, AsyncClient, KubeConfig
from lightkube.models.core_v1 import (
    LocalVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim

from tools.cluster.layout import PROVISIONER, STORAGE_CLASS, VOLUMES

_PREFIX = "pvc-"
_RETRY_SECONDS = 1.0
# Watches bring every change; this only bounds how long a lost one can matter.
_RESYNC_SECONDS = 30.0
# As a fresh disk's root directory: without an fsGroup only root writes.
_DIRECTORY_MODE = 0o755


@dataclass(frozen=True)
class Plan:
    """What to do.

    Attributes:
        provide: volumes to create, each with its directory.
        reclaim: names of released volumes, to remove with their directories.
        sweep: directories that no volume owns any more.
    """

    provide: tuple[PersistentVolume, ...]
    reclaim: tuple[str, ...]
    sweep: tuple[str, ...]


def plan(
    claims: Sequence[PersistentVolumeClaim],
    volumes: Sequence[PersistentVolume],
    directories: Collection[str],
    node: str,
) -> Plan:
    """Decide what is missing and what is left over.

    Args:
        claims: all claims of the cluster.
        volumes: all volumes of the cluster, read after the claims.
        directories: names of the directories that exist.
        node: the only node.
    """
    existing = {_name(volume.metadata) for volume in volumes}
    provide = [_volume_for(claim, node) for claim in claims if _wants_volume(claim)]
    missing = [volume for volume in provide if _name(volume.metadata) not in existing]
    wanted = existing | {_name(volume.metadata) for volume in missing}
    return Plan(
        provide=tuple(missing),
        reclaim=tuple(_name(volume.metadata) for volume in volumes if _is_released(volume)),
        sweep=tuple(sorted(name for name in directories if name.startswith(_PREFIX) and name not in wanted)),
    )


def _wants_volume(claim: PersistentVolumeClaim) -> bool:
    if claim.spec is None or claim.metadata is None or claim.metadata.deletionTimestamp is not None:
        return False
    is_ours = claim.spec.storageClassName == STORAGE_CLASS and claim.spec.volumeMode in (None, "Filesystem")
    return is_ours and not claim.spec.volumeName


def _is_released(volume: PersistentVolume) -> bool:
    annotations = (volume.metadata.annotations if volume.metadata else None) or {}
    is_ours = annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
    phase = volume.status.phase if volume.status else None
    policy = volume.spec.persistentVolumeReclaimPolicy if volume.spec else None
    return is_ours and policy == "Delete" and phase == "Released"


def _volume_for(claim: PersistentVolumeClaim, node: str) -> PersistentVolume:
    metadata, spec = claim.metadata, claim.spec
    if metadata is None or spec is None:
        raise ValueError("a claim without metadata or spec cannot have come from the API server")
    name = f"{_PREFIX}{metadata.uid}"
    on_this_node = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=[node])
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={"pv.kubernetes.io/provisioned-by": PROVISIONER}),
        spec=PersistentVolumeSpec(
            accessModes=spec.accessModes,
            capacity=spec.resources.requests if spec.resources else None,
            # With the uid, or a later claim of the same name would get the data of this one.
            claimRef=ObjectReference(
                apiVersion="v1",
                kind="PersistentVolumeClaim",
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
            ),
            local=LocalVolumeSource(path=str(VOLUMES / name)),
            nodeAffinity=VolumeNodeAffinity(
                required=NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=[on_this_node])])
            ),
            persistentVolumeReclaimPolicy="Delete",
            storageClassName=STORAGE_CLASS,
            volumeMode="Filesystem",
        ),
    )


def _name(metadata: ObjectMeta | None) -> str:
    if metadata is None or metadata.name is None:
        raise ValueError("an object without a name cannot have come from the API server")
    return metadata.name


async def carry_out(client: AsyncClient, decided: Plan, root: Path = VOLUMES) -> None:
    """Do what was decided; doing it twice does no harm.

    Raises:
        ApiError: the API server refused.
        httpx2.HTTPError: it could not be reached.
    """
    for volume in decided.provide:
        (root / _name(volume.metadata)).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        await client.create(volume)
        print(f"created {_name(volume.metadata)}", flush=True)
    # The directory goes first: a volume that is gone can no longer say that its directory has to go too.
    for name in (*decided.sweep, *decided.reclaim):
        shutil.rmtree(root / name, ignore_errors=not (root / name).exists())
        print(f"removed the directory of {name}", flush=True)
    for name in decided.reclaim:
        await client.delete(PersistentVolume, name)


async def _pass(client: AsyncClient, node: str) -> None:
    claims = [claim async for claim in client.list(PersistentVolumeClaim, namespace=ALL_NS)]
    volumes = [volume async for volume in client.list(PersistentVolume)]
    await carry_out(client, plan(claims, volumes, {path.name for path in VOLUMES.iterdir()}, node))


async def _watch_claims(client: AsyncClient, changed: asyncio.Event) -> None:
    async for _ in client.watch(PersistentVolumeClaim, namespace=ALL_NS):
        changed.set()


async def _watch_volumes(client: AsyncClient, changed: asyncio.Event) -> None:
    async for _ in client.watch(PersistentVolume):
        changed.set()


async def _loop(client: AsyncClient, node: str, changed: asyncio.Event) -> None:
    while True:
        changed.clear()
        await _pass(client, node)
        try:
            await asyncio.wait_for(changed.wait(), _RESYNC_SECONDS)
        except TimeoutError:
            continue


async def main(kubeconfig: Path, node: str) -> None:
    """Provide volumes until killed; after a failure everything starts anew, as long as the cluster lives."""
    VOLUMES.mkdir(parents=True, exist_ok=True)
    client = AsyncClient(config=KubeConfig.from_file(str(kubeconfig)))
    while True:
        changed = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_watch_claims(client, changed))
                group.create_task(_watch_volumes(client, changed))
                group.create_task(_loop(client, node, changed))
        except* (ApiError, httpx2.HTTPError, OSError) as failures:
            print(f"starting anew after {failures.exceptions!r}", flush=True)
        await asyncio.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
