"""What makes a revision a revision: its identity, the hash that names it, and when two identities are one.

Spec section 3.1. Replicas, cache, keys and rollout settings are no part of it: changing them changes no revision.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Final

from components.desired import JsonObject

NO_PLACEMENT: Final = "none"
"""How a status spells an empty placement; an empty string there was written before placements were recorded."""

_HASH_LENGTH = 16
_LEGACY_HASH_LENGTH = 10
_SHORT_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionIdentity:
    """The fields that a revision's hash covers."""

    engine: str
    model: str
    """As the user wrote it: another spelling is another revision."""
    digest: str
    """The resolved digest, 64 hexadecimal digits."""
    device: str
    image: str
    """The full reference to be rendered, with its digest when pinned."""
    resources: JsonObject = field(default_factory=dict)
    """`spec.resources` as written; defaults are rendered later and are no part of it."""
    placement: str = ""
    """From `placement_hash`, or `NO_PLACEMENT`."""
    pods: str = ""
    """From `pods_hash`. What is set there changes the Pods, and so must not reach those that serve."""
    custom_image: bool = False
    """Whether `image` is the user's own (`spec.image`). Not hashed."""


def revision_hash(identity: RevisionIdentity) -> str:
    """Return the 16 hexadecimal digits that name the revision."""
    return _sha256(_canonical(identity))[:_HASH_LENGTH]


def legacy_hash(identity: RevisionIdentity) -> str:
    """Return the ten digits by which earlier versions named it: without placement, the image without its digest."""
    legacy = replace(identity, image=_tag(identity.image), placement="", pods="")
    return _sha256(_canonical(legacy))[:_LEGACY_HASH_LENGTH]


def is_named(revision: str, identity: RevisionIdentity) -> bool:
    """Whether a revision's name, of this version or an earlier one, is that of the identity."""
    return revision in (revision_hash(identity), legacy_hash(identity))


def placement_hash(scheduling: JsonObject) -> str:
    """Return ten hexadecimal digits for `spec.scheduling`, an empty string when nothing is set in it."""
    declared = {key: value for key, value in scheduling.items() if value not in (None, "", [], {}, ())}
    return _short_hash(declared)


def pods_hash(pods: JsonObject) -> str:
    """Return ten hexadecimal digits for `spec.pods` without its defaults, an empty string when nothing is set in it."""
    return _short_hash({key: value for key, value in pods.items() if value})


def same_identity(recorded: RevisionIdentity, wanted: RevisionIdentity) -> bool:
    """Whether the recorded revision already is what is wanted.

    Images rendered by the engine also agree when only one of them pins the tag to a digest, so pinning rolls nothing.
    """
    return _same_image(recorded, wanted) and _without_image(recorded) == _without_image(wanted)


def is_legacy_record(recorded_hash: str, recorded_placement: str, wanted: RevisionIdentity) -> bool:
    """Whether a record by an earlier version is the wanted revision, to be completed instead of rolled out.

    Args:
        recorded_hash: `hash` of the status record.
        recorded_placement: `placement` of the status record; empty only in legacy ones.
        wanted: What the spec resolves to now.
    """
    return not recorded_placement and not wanted.pods and recorded_hash == legacy_hash(wanted)


def _canonical(identity: RevisionIdentity) -> str:
    # The order of these keys is part of the hash; inside `resources` keys are sorted, as Kubernetes writes its maps.
    fields: dict[str, Any] = {
        "engine": identity.engine,
        "model": identity.model,
        "digest": identity.digest,
        "device": identity.device,
        "image": identity.image,
        "resources": json.loads(_json(identity.resources)),
    }
    placement = _placement(identity)
    later = {"placement": placement, "pods": identity.pods}
    return json.dumps(fields | {key: value for key, value in later.items() if value}, **_COMPACT)


_COMPACT: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}


def _json(value: JsonObject) -> str:
    return json.dumps(value, sort_keys=True, **_COMPACT)


def _short_hash(declared: JsonObject) -> str:
    return _sha256(_json(declared))[:_SHORT_HASH_LENGTH] if declared else ""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _placement(identity: RevisionIdentity) -> str:
    return "" if identity.placement == NO_PLACEMENT else identity.placement


def _tag(image: str) -> str:
    return image.partition("@")[0]


def _without_image(identity: RevisionIdentity) -> RevisionIdentity:
    return replace(identity, image="", custom_image=False, placement=_placement(identity))


def _same_image(recorded: RevisionIdentity, wanted: RevisionIdentity) -> bool:
    if recorded.image == wanted.image:
        return True
    if recorded.custom_image or wanted.custom_image or ("@" in recorded.image and "@" in wanted.image):
        return False
    return _tag(recorded.image) == _tag(wanted.image)
