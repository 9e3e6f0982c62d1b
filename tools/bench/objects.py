"""The objects of a finished rollout, made ready to be applied by hand under another name. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SERVER_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
_SERVER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "PersistentVolumeClaim": ("volumeName",),
    "Job": ("selector",),
    "Deployment": (),
    "Service": ("clusterIP", "clusterIPs"),
    "ConfigMap": (),
}
KINDS = tuple(_SERVER_FIELDS)


def applicable(live: Sequence[Mapping[str, Any]], name: str, new_name: str) -> dict[str, dict[str, Any]]:
    """Return live objects as somebody without the platform would apply them, by kind.

    They lose their owner and what the API server filled in. The readiness gate goes too: nobody would open it, and
    to go without is the fastest way by hand (which proves nothing about what the runtime has loaded).

    Args:
        live: One object of each kind.
        name: The model they belong to.
        new_name: The model they shall belong to.
    """
    renamed = json.loads(json.dumps(live).replace(name, new_name))
    return {obj["kind"]: _applicable(obj) for obj in renamed}


def _applicable(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels")}
    kept = {key: obj[key] for key in ("apiVersion", "kind", "data", "binaryData") if key in obj}
    if "spec" not in obj:
        return {**kept, "metadata": metadata}
    spec = {key: value for key, value in obj["spec"].items() if key not in _SERVER_FIELDS[obj["kind"]]}
    if "template" in spec:
        spec["template"] = _template(spec["template"])
    return {**kept, "metadata": metadata, "spec": spec}


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    labels = template["metadata"]["labels"]
    spec = {key: value for key, value in template["spec"].items() if key != "readinessGates"}
    return {
        "metadata": {"labels": {key: value for key, value in labels.items() if key not in _SERVER_LABELS}},
        "spec": spec,
    }
