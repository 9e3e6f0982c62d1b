"""The specification's table of changes (spec section 5.15): edits of one small serving model, and what they come to."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

SERVING: Spec = {
    "model": "laya:en",
    "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
    "cache": {"size": "2Gi"},
    # The old revision goes half a minute after the promotion.
    "rollout": {"stabilization": "0s"},
}
"""What serves before any of the edits, each of which replaces whole fields."""

NEW_REVISIONS: dict[str, Spec] = {
    "model": {"model": "laya:en-better"},
    "device": {"device": "cuda"},
    "resources": {"resources": {"requests": {"cpu": "30m", "memory": "32Mi"}, "limits": {"cpu": "2"}}},
    # Any image with a digest will do; this one exists where the older runtime does.
    "image": {
        "image": "ghcr.io/ollaya-dev/ollaya:0.11.0"
        "@sha256:5f96bc111bf6ca2af9691c0a33a6d04c61e16c4918fb002850f212cbc998de60"
    },
    "runtimeVersion": {"runtimeVersion": "0.11.0"},
    "scheduling": {"scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
    "pods": {"pods": {"labels": {"team": "a"}, "annotations": {"sidecar.istio.io/inject": "false"}}},
}

COMBINED: dict[str, Spec] = {
    "model and replicas": {"model": "laya:en-better", "replicas": 2},
    "model, stopping first": {"model": "laya:en-better", "rollout": {"stabilization": "0s", "strategy": "Recreate"}},
    "model and a small store": {"model": "laya:en-better", "cache": {"size": "1Gi"}},
}
"""New revisions whose rollout is changed by the same edit."""

IN_PLACE: dict[str, Spec] = {
    "replicas": {"replicas": 3},
    "cache.size grows": {"cache": {"size": "4Gi"}},
    "cache.size shrinks": {"cache": {"size": "1Gi"}},
    "cache.storageClassName": {"cache": {"size": "2Gi", "storageClassName": "fast"}},
    "cache.accessModes": {"cache": {"size": "2Gi", "accessModes": ["ReadWriteMany"]}},
    "cache.prefetch": {"cache": {"size": "2Gi", "prefetch": {"resources": {"limits": {"cpu": "1"}}}}},
    "auth": {"auth": {"apiKeySecretRef": {"name": "keys", "key": "api-key"}}},
    "rollout": {"rollout": {"stabilization": "1m", "promotion": "Manual", "timeouts": {"starting": "5m"}}},
}

REFUSED: dict[str, tuple[Spec, str]] = {
    "a registry that is not allowed": ({"model": "models.example.com/laya:en"}, "RegistryNotAllowed"),
    "no model's name": ({"model": "a/b/c/d:en"}, "InvalidModelName"),
    "an image of one's own": ({"image": "registry.example.com/own:1"}, "ImageOverrideNotAllowed"),
    "a runtime that is too old": ({"runtimeVersion": "0.1.0"}, "RuntimeVersionUnsupported"),
    "a runtime nobody knows": ({"runtimeVersion": "0.99.0"}, "UnpinnedRuntimeImage"),
    "a missing tag": ({"model": "laya:missing"}, "ModelNotFound"),
}
"""Edits that a reconciler without any permission refuses, with the reason."""
