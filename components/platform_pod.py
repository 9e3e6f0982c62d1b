"""The reconciler's Pod: a read-only container with one scratch volume and one for the engine's state."""

from __future__ import annotations

from typing import Any, Final

from components.configuration import PlatformConfiguration
from components.desired import JsonObject

USER_ID: Final = 65532
HEALTH_PORT: Final = 8081

# Where the image keeps the engine's plugins, read-only but for its scratch directory.
_ENGINE_HOME = "/opt/pulumi"
_STATE_DIRECTORY = "/var/lib/decisionmodel/state"
_WORK_DIRECTORY = "/var/lib/decisionmodel/work"

# An operation saves its state within the driver's own grace period of ten seconds; twice that and the time the last
# reconciles take to end fit in here.
_TERMINATION_GRACE_SECONDS = 60


def pod_spec(configuration: PlatformConfiguration, service_account: str, state_claim: str | None) -> JsonObject:
    """Return the spec of the reconciler's Pod; without a claim the engine's state lives and dies with the Pod."""
    state = {"persistentVolumeClaim": {"claimName": state_claim}} if state_claim else {"emptyDir": {}}
    return {
        "serviceAccountName": service_account,
        "terminationGracePeriodSeconds": _TERMINATION_GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(configuration)],
        "volumes": [{"name": "work", "emptyDir": {}}, {"name": "state", **state}],
    }


def _container(configuration: PlatformConfiguration) -> dict[str, Any]:
    return {
        "name": "manager",
        "image": configuration.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            f"--health-probe-bind-address=:{HEALTH_PORT}",
            f"--pulumi-home={_ENGINE_HOME}",
            # The states hold no secret (Secrets are referenced by name), so they are encrypted with the empty
            # passphrase: one kept in a Secret would protect nothing and could be lost.
            f"--state-backend=file://{_STATE_DIRECTORY}",
            f"--work-directory={_WORK_DIRECTORY}",
            *configuration.manager.arguments(),
        ],
        "env": _environment(configuration),
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": _probe("/healthz", delay=15, period=20),
        "readinessProbe": _probe("/readyz", delay=5, period=10),
        "resources": configuration.resources.model_dump(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "state", "mountPath": _STATE_DIRECTORY},
            {"name": "work", "mountPath": _WORK_DIRECTORY, "subPath": "work"},
            {"name": "work", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108  # the Pod's own, not this machine's
            {"name": "work", "mountPath": f"{_ENGINE_HOME}/workspaces", "subPath": "workspaces"},
        ],
    }


def _environment(configuration: PlatformConfiguration) -> list[JsonObject]:
    # This uid has no entry in the image's passwd, and the engine signs its locks with the user's name.
    fixed = {"USER": "decisionmodel", "HOME": _WORK_DIRECTORY}
    own = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    plain = sorted({**fixed, **configuration.environment}.items())
    return [
        *({"name": name, "value": value} for name, value in plain if name not in own),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
    ]


def _probe(path: str, *, delay: int, period: int) -> JsonObject:
    return {"httpGet": {"path": path, "port": "health"}, "initialDelaySeconds": delay, "periodSeconds": period}
