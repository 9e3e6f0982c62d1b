"""What stands in the way of a declared field: another member of the same union.

Server-side apply puts our field beside those that others own. Where somebody replaced a reference by a value, or one
kind of probe by another, the API server then finds both, and refuses the whole object, every time. So the other member
goes first, in the write that brings ours back.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from components.desired import JsonObject
from components.subset import identifying_field

_UNIONS: Final = (
    frozenset({"value", "valueFrom"}),
    frozenset({"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"}),
    frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
    frozenset({"maxUnavailable", "minAvailable"}),
    frozenset(
        {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "fc", "flexVolume", "hostPath", "image", "iscsi"}
        | {"nfs", "persistentVolumeClaim", "portworxVolume", "projected", "secret"}
    ),
)
"""An object has one member of each (Kubernetes API: EnvVar, EnvVarSource, Probe, PodDisruptionBudgetSpec, Volume)."""


def restored(desired: JsonObject, live: JsonObject) -> dict[str, Any] | None:
    """Return `live` with declared members of unions in the place of others; None where no other one is.

    Args:
        desired: A rendered object.
        live: The same in the cluster. Whatever else differs stays as it is.
    """
    changed = copy.deepcopy(dict(live))
    return changed if _restore(desired, changed) else None


def _restore(desired: Any, live: Any) -> bool:
    """Change `live`; return whether there was anything to change."""
    if isinstance(desired, Mapping) and isinstance(live, dict):
        replaced = _replace_rivals(desired, live)
        inside = [_restore(value, live[key]) for key, value in desired.items() if key in live]
        return replaced or any(inside)
    if isinstance(desired, list | tuple) and isinstance(live, list) and (field := identifying_field(desired)):
        found = {item.get(field): item for item in live if isinstance(item, dict)}
        items = [_restore(item, found[item[field]]) for item in desired if item[field] in found]
        return any(items)
    return False


def _replace_rivals(desired: JsonObject, live: dict[str, Any]) -> bool:
    rivals = _rivals(desired) & live.keys()
    for each in rivals:
        del live[each]
    if rivals:
        live.update(copy.deepcopy(dict(desired)))
    return bool(rivals)


def _rivals(desired: JsonObject) -> frozenset[str]:
    """The fields that must not be beside those declared."""
    others = [union - desired.keys() for union in _UNIONS if union & desired.keys()]
    if desired.get("type") == "Recreate":
        # A Deployment's strategy; the API server fills in the other's limits.
        others.append(frozenset({"rollingUpdate"}))
    return frozenset().union(*others)
