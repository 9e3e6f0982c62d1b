"""The runtime's images and versions (spec sections 4.7 and 5.13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.engine.errors import InvalidRuntimeVersion, RuntimeVersionUnsupported

REPOSITORY: Final = "ghcr.io/ollaya-dev/ollaya"

_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_TAG: Final = re.compile(rf"{re.escape(REPOSITORY)}:([0-9.]+)(?:-cuda)?(?:@sha256:[0-9a-f]{{64}})?")


class RuntimeVersion(NamedTuple):
    """A released version of the runtime; compares by its numbers."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> RuntimeVersion:
        """Read `major.minor.patch`.

        Raises:
            InvalidRuntimeVersion: The text has another form.
        """
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidRuntimeVersion(f"runtime version {text[:40]!r} is not of the form 1.2.3")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


DEFAULT_VERSION: Final = RuntimeVersion(0, 12, 0)
MINIMUM_VERSION: Final = RuntimeVersion(0, 7, 3)
THREADS_VERSION: Final = RuntimeVersion(0, 11, 0)
"""The first version that reads OLLAYA_THREADS."""


class _Digests(NamedTuple):
    cpu: str
    cuda: str


_PINNED: Final = {
    RuntimeVersion(0, 7, 3): _Digests(
        cpu="3e3ad48f93baa7d98d43a9655646b6264bd8322493393a6eb7a899b5d231b4a9",
        cuda="b35eedf0c0464455240820a32f755f58d53e68e99c0007c75c8c60fb2309c8d6",
    ),
    RuntimeVersion(0, 10, 0): _Digests(
        cpu="13fd0aad32f60cc2e5e7bb8007eed51194052dd75a066bf87f5dfbece4edbaa8",
        cuda="1e4d7708405b1c28e46bb7c2d79bebb250c05131bc899fc0bff54008d2f22938",
    ),
    RuntimeVersion(0, 11, 0): _Digests(
        cpu="5f96bc111bf6ca2af9691c0a33a6d04c61e16c4918fb002850f212cbc998de60",
        cuda="239045853b01fc919a33f5206b51c0e3a4d8a744bed3f94998a650589561baec",
    ),
    RuntimeVersion(0, 12, 0): _Digests(
        cpu="f79e865fda7af45aa66617b85fe16b08688d27f83a3137a21c75d3b137d8cf39",
        cuda="ee3c316db37b1dfc828bd8bf5db1d269c98e49ad4918cf2e18748292e1f178e7",
    ),
}


class RuntimeVersionPolicy(StrEnum):
    """What an unset `spec.runtimeVersion` means (option `--runtime-version-policy`)."""

    PINNED = "Pinned"
    FOLLOW_OPERATOR = "FollowOperator"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeImage:
    """An image of the runtime as it is written into a Pod."""

    reference: str
    version: RuntimeVersion
    pinned: bool
    """Whether the reference names its bytes; an unpinned one needs the operator's permission."""


def runtime_image(version: RuntimeVersion, device: str) -> RuntimeImage:
    """The image that serves on `device` (`cpu` or `cuda`), by digest where the digest is known."""
    cuda = device == "cuda"
    reference = f"{REPOSITORY}:{version}{'-cuda' if cuda else ''}"
    digests = _PINNED.get(version)
    if digests is None:
        return RuntimeImage(reference=reference, version=version, pinned=False)
    digest = digests.cuda if cuda else digests.cpu
    return RuntimeImage(reference=f"{reference}@sha256:{digest}", version=version, pinned=True)


def version_of_image(reference: str) -> RuntimeVersion | None:
    """The version that a reference rendered by `runtime_image` carries; None for any other image."""
    match = _TAG.fullmatch(reference)
    if match is None or not _VERSION.fullmatch(match[1]):
        return None
    return RuntimeVersion.parse(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRuntime:
    """What the status records about the runtime of the stable revision; empty strings when it records nothing."""

    version: str = ""
    image: str = ""

    @property
    def known_version(self) -> RuntimeVersion | None:
        """The recorded version, else the one in the image's tag; None for a custom image."""
        if _VERSION.fullmatch(self.version):
            return RuntimeVersion.parse(self.version)
        return version_of_image(self.image)


def choose_version(
    requested: str | None,
    *,
    policy: RuntimeVersionPolicy,
    stable: ServingRuntime | None,
    default: RuntimeVersion = DEFAULT_VERSION,
) -> RuntimeVersion:
    """The version a revision runs: the spec's, else by policy the stable's own, else the operator's default.

    Raises:
        InvalidRuntimeVersion: `requested` is not a version.
        RuntimeVersionUnsupported: The chosen version is older than `MINIMUM_VERSION`.
    """
    version = default
    if requested:
        version = RuntimeVersion.parse(requested)
    elif policy is RuntimeVersionPolicy.PINNED and stable is not None:
        version = stable.known_version or default
    if version < MINIMUM_VERSION:
        raise RuntimeVersionUnsupported(f"runtime {version} is older than {MINIMUM_VERSION}, the oldest supported one")
    return version


def update_available(running: RuntimeVersion | None, default: RuntimeVersion = DEFAULT_VERSION) -> bool:
    """Whether the operator's default is newer than what runs; an unknown running version counts as current."""
    return running is not None and running < default
