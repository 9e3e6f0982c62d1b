"""The volume provisioner: what it decides for any set of claims, and what it does about it."""

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lightkube.models.core_v1 import (
    ObjectReference,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeResourceRequirements,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim

from tools.cluster.layout import PROVISIONER, STORAGE_CLASS
from tools.cluster.provisioner import Plan, carry_out, plan

_UIDS = st.sampled_from([f"uid-{number}" for number in range(6)])


def _claim(
    uid: str = "uid-1",
    storage_class: str | None = STORAGE_CLASS,
    mode: str = "Filesystem",
    volume: str | None = None,
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=f"claim-{uid}", namespace="models", uid=uid),
        spec=PersistentVolumeClaimSpec(
            accessModes=["ReadWriteOnce"],
            resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
            storageClassName=storage_class,
            volumeMode=mode,
            volumeName=volume,
        ),
    )


def _volume(uid: str = "uid-1", phase: str = "Bound", provisioner: str = PROVISIONER) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=f"pvc-{uid}", annotations={"pv.kubernetes.io/provisioned-by": provisioner}),
        spec=PersistentVolumeSpec(
            persistentVolumeReclaimPolicy="Delete", claimRef=ObjectReference(uid=uid), storageClassName=STORAGE_CLASS
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def test_a_new_claim_gets_a_volume_that_only_it_can_bind() -> None:
    (volume,) = plan([_claim()], [], [], "here").provide

    spec = volume.spec
    assert spec is not None
    assert spec.claimRef is not None
    assert spec.local is not None
    assert (spec.claimRef.namespace, spec.claimRef.name, spec.claimRef.uid) == ("models", "claim-uid-1", "uid-1")
    assert spec.local.path.endswith("/pvc-uid-1")
    assert spec.capacity == {"storage": "1Gi"}
    assert spec.accessModes == ["ReadWriteOnce"]
    assert "here" in str(spec.nodeAffinity)


def test_a_claim_of_another_class_or_kind_is_left_alone() -> None:
    others = [_claim(storage_class="fast"), _claim(storage_class=None), _claim(mode="Block")]
    assert plan(others, [], [], "here") == Plan((), (), ())


def test_a_bound_claim_needs_nothing() -> None:
    assert plan([_claim(volume="pvc-uid-1")], [_volume()], ["pvc-uid-1"], "here") == Plan((), (), ())


def test_a_released_volume_goes_with_its_directory_unless_it_is_anothers() -> None:
    volumes = [_volume("uid-1", "Released"), _volume("uid-2", "Released", provisioner="somebody-else")]
    assert plan([], volumes, ["pvc-uid-1"], "here") == Plan((), ("pvc-uid-1",), ())


def test_only_our_own_leftover_directories_are_swept() -> None:
    assert plan([], [], ["pvc-old", "lost+found"], "here").sweep == ("pvc-old",)


@given(st.sets(_UIDS), st.dictionaries(_UIDS, st.sampled_from(["Available", "Bound", "Released"])), st.sets(_UIDS))
def test_no_directory_in_use_is_ever_removed(claimed: set[str], volumes: dict[str, str], present: set[str]) -> None:
    decided = plan(
        [_claim(uid) for uid in sorted(claimed)],
        [_volume(uid, phase) for uid, phase in volumes.items()],
        [f"pvc-{uid}" for uid in present],
        "here",
    )

    provided = {volume.metadata.name for volume in decided.provide if volume.metadata}
    in_use = provided | {f"pvc-{uid}" for uid, phase in volumes.items() if phase != "Released"}
    assert in_use.isdisjoint({*decided.sweep, *decided.reclaim})
    assert provided == {f"pvc-{uid}" for uid in claimed - volumes.keys()}


class _Api:
    """Records what the provisioner asks for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def create(self, volume: PersistentVolume) -> None:
        assert volume.metadata is not None
        self.calls.append(("create", str(volume.metadata.name)))

    async def delete(self, kind: type[PersistentVolume], name: str) -> None:
        assert kind is PersistentVolume
        self.calls.append(("delete", name))


def _carry_out(decided: Plan, root: Path) -> list[tuple[str, str]]:
    api: Any = _Api()
    asyncio.run(carry_out(api, decided, root))
    calls: list[tuple[str, str]] = api.calls
    return calls


def test_a_provided_volume_has_its_directory(tmp_path: Path) -> None:
    decided = plan([_claim()], [], [], "here")

    for _ in range(2):
        assert _carry_out(decided, tmp_path) == [("create", "pvc-uid-1")]

    assert (tmp_path / "pvc-uid-1").is_dir()


def test_a_reclaimed_volume_takes_its_data_along(tmp_path: Path) -> None:
    (tmp_path / "pvc-uid-1").mkdir()
    (tmp_path / "pvc-uid-1" / "model.bin").write_text("weights")

    for _ in range(2):
        assert _carry_out(Plan((), ("pvc-uid-1",), ()), tmp_path) == [("delete", "pvc-uid-1")]

    assert list(tmp_path.iterdir()) == []


def test_a_swept_directory_is_nobodys_volume(tmp_path: Path) -> None:
    (tmp_path / "pvc-old").mkdir()
    assert _carry_out(Plan((), (), ("pvc-old",)), tmp_path) == []
    assert list(tmp_path.iterdir()) == []
