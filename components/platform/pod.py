"""The reconciler's Pod: a read-only container with one scratch volume, one for the engine's state, and its token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from components.configuration import PlatformConfiguration, S3State
from components.desired import JsonObject
from components.platform.metadata import MANAGER_NAME, STATE_CLAIM_NAME
from components.platform.policy import EnforcedPolicy

USER_ID: Final = 65532
HEALTH_PORT: Final = 8081
METRICS_PORT_NAME: Final = "metrics"

# Where the image keeps the engine's plugins, read-only but for its scratch directory.
_ENGINE_HOME = "/opt/pulumi"
_STATE_DIRECTORY = "/var/lib/decisionmodel/state"
_WORK_DIRECTORY = "/var/lib/decisionmodel/work"
_CREDENTIALS_DIRECTORY = "/etc/decisionmodel/state-credentials"
_CERTIFICATE_DIRECTORY = "/etc/decisionmodel/metrics-certificate"
# Where every client looks for it; the kubelet renews the token, and clients read it again when it is refused.
_TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a path
_TOKEN_SECONDS = 3600

# An operation saves its state within the driver's own grace period of ten seconds; twice that and the time the last
# reconciles take to end fit in here.
_TERMINATION_GRACE_SECONDS = 60

_PROXY_KEYS = {"HTTP_PROXY": "httpProxy", "HTTPS_PROXY": "httpsProxy", "NO_PROXY": "noProxy"}
_REQUIRED_S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OPTIONAL_S3_KEYS = ("AWS_SESSION_TOKEN",)


def pod_spec(configuration: PlatformConfiguration, policy: EnforcedPolicy | None = None) -> JsonObject:
    """Return the spec of the reconciler's Pod."""
    return {
        "serviceAccountName": MANAGER_NAME,
        # Mounted below instead, for an hour at a time and into the one container that needs it.
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _TERMINATION_GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_placement(configuration),
        "containers": [_container(configuration, policy)],
        "volumes": [*_volumes(configuration), *([policy.volume()] if policy else [])],
    }


def _placement(configuration: PlatformConfiguration) -> dict[str, Any]:
    fields = {
        "imagePullSecrets": [{"name": name} for name in configuration.image_pull_secrets],
        "nodeSelector": dict(configuration.node_selector),
        "tolerations": [toleration.dump() for toleration in configuration.tolerations],
        "affinity": configuration.affinity.dump(),
    }
    return {name: value for name, value in fields.items() if value}


def _container(configuration: PlatformConfiguration, policy: EnforcedPolicy | None) -> dict[str, Any]:
    return {
        "name": "manager",
        "image": configuration.image,
        "imagePullPolicy": configuration.image_pull_policy.value,
        "args": [*_arguments(configuration), *(policy.arguments() if policy else [])],
        "env": _environment(configuration),
        "ports": _ports(configuration),
        "livenessProbe": _probe("/healthz", delay=15, period=20),
        "readinessProbe": _probe("/readyz", delay=5, period=10),
        "resources": configuration.resources.model_dump(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [*_mounts(configuration), *([policy.mount()] if policy else [])],
    }


def _arguments(configuration: PlatformConfiguration) -> list[str]:
    s3 = configuration.state.s3
    return [
        f"--health-probe-bind-address=:{HEALTH_PORT}",
        *_metrics_arguments(configuration),
        f"--pulumi-home={_ENGINE_HOME}",
        # The states hold no secret (Secrets are referenced by name), so they are encrypted with the empty passphrase:
        # one kept in a Secret would protect nothing and could be lost.
        f"--state-backend={s3_url(s3) if s3 else f'file://{_STATE_DIRECTORY}'}",
        f"--work-directory={_WORK_DIRECTORY}",
        *configuration.manager.arguments(),
    ]


def _metrics_arguments(configuration: PlatformConfiguration) -> list[str]:
    endpoint = configuration.metrics_endpoint
    if endpoint is None:
        return ["--metrics-bind-address=0"]
    address = f"--metrics-bind-address={endpoint.bind_address}"
    if not endpoint.secure:
        return [address, "--metrics-secure=false"]
    certificate = configuration.metrics.certificate_secret
    return [address, *([f"--metrics-cert-path={_CERTIFICATE_DIRECTORY}"] if certificate else [])]


def s3_url(s3: S3State) -> str:
    """Return a bucket as the engine's backend address; credentials are never part of it."""
    options = {
        "region": s3.region,
        "endpoint": s3.endpoint,
        "disableSSL": "true" if s3.disable_tls else None,
        "s3ForcePathStyle": "true" if s3.force_path_style else None,
    }
    query = urlencode({name: value for name, value in options.items() if value is not None})
    path = f"/{s3.prefix}" if s3.prefix else ""
    return f"s3://{s3.bucket}{path}{'?' if query else ''}{query}"


def _environment(configuration: PlatformConfiguration) -> list[JsonObject]:
    """Return the container's variables; where two sources set one, the later counts."""
    # This uid has no entry in the image's passwd, and the engine signs its locks with the user's name.
    fixed = {"USER": "decisionmodel", "HOME": _WORK_DIRECTORY}
    plain = {name: {"value": value} for name, value in sorted({**fixed, **configuration.environment}.items())}
    own = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    sources: dict[str, Mapping[str, Any]] = {
        **plain,
        **_proxy_variables(configuration),
        **_s3_variables(configuration.state.s3),
        **{name: {"valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()},
    }
    return [{"name": name, **source} for name, source in sources.items()]


def _proxy_variables(configuration: PlatformConfiguration) -> dict[str, Mapping[str, Any]]:
    proxy = configuration.proxy
    if proxy.existing_secret:
        return {name: _from_secret(proxy.existing_secret, key, optional=True) for name, key in _PROXY_KEYS.items()}
    values = {"HTTP_PROXY": proxy.http_proxy, "HTTPS_PROXY": proxy.https_proxy, "NO_PROXY": proxy.no_proxy}
    return {name: {"value": value} for name, value in values.items() if value}


def _s3_variables(s3: S3State | None) -> dict[str, Mapping[str, Any]]:
    if s3 is None or s3.credentials_secret is None:
        return {}
    return {"DECISIONMODEL_STATE_CREDENTIALS": {"value": _CREDENTIALS_DIRECTORY}}


def _credentials_volume(secret: str) -> JsonObject:
    """Return the bucket's credentials as files: unlike variables they follow a rotation."""
    required = {"name": secret, "items": [{"key": key, "path": key} for key in _REQUIRED_S3_KEYS]}
    optional = {"name": secret, "optional": True, "items": [{"key": key, "path": key} for key in _OPTIONAL_S3_KEYS]}
    return {"name": "state-credentials", "projected": {"sources": [{"secret": required}, {"secret": optional}]}}


def _from_secret(secret: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference = {"name": secret, "key": key}
    return {"valueFrom": {"secretKeyRef": {**reference, "optional": True} if optional else reference}}


def _ports(configuration: PlatformConfiguration) -> list[JsonObject]:
    endpoint = configuration.metrics_endpoint
    ports = {"health": HEALTH_PORT, **({METRICS_PORT_NAME: endpoint.port} if endpoint else {})}
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()]


def _mounts(configuration: PlatformConfiguration) -> list[JsonObject]:
    state = [] if configuration.state.s3 else [{"name": "state", "mountPath": _STATE_DIRECTORY}]
    certificate = {"name": "metrics-certificate", "mountPath": _CERTIFICATE_DIRECTORY, "readOnly": True}
    credentials = {"name": "state-credentials", "mountPath": _CREDENTIALS_DIRECTORY, "readOnly": True}
    return [
        *state,
        {"name": "work", "mountPath": _WORK_DIRECTORY, "subPath": "work"},
        {"name": "work", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108  # the Pod's own, not this machine's
        {"name": "work", "mountPath": f"{_ENGINE_HOME}/workspaces", "subPath": "workspaces"},
        {"name": "token", "mountPath": _TOKEN_DIRECTORY, "readOnly": True},
        *([certificate] if configuration.metrics.certificate_secret else []),
        *([credentials] if configuration.state.s3 and configuration.state.s3.credentials_secret else []),
    ]


def _volumes(configuration: PlatformConfiguration) -> list[JsonObject]:
    volumes: list[JsonObject] = [{"name": "work", "emptyDir": {}}, _token_volume()]
    if not configuration.state.s3:
        claim = {"persistentVolumeClaim": {"claimName": STATE_CLAIM_NAME}}
        volumes.append({"name": "state", **(claim if configuration.state.size else {"emptyDir": {}})})
    if configuration.metrics.certificate_secret:
        secret = {"secretName": configuration.metrics.certificate_secret}
        volumes.append({"name": "metrics-certificate", "secret": secret})
    if configuration.state.s3 and configuration.state.s3.credentials_secret:
        volumes.append(_credentials_volume(configuration.state.s3.credentials_secret))
    return volumes


def _token_volume() -> JsonObject:
    """Return what the kubelet would mount by itself, but with a token that really ends after its time."""
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    # With the version that the API server would add: the sources are compared as a whole, so that without it every
    # `kubectl apply` would find a difference.
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": "token",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {"configMap": authority},
                {"downwardAPI": {"items": [namespace]}},
            ]
        },
    }


def _probe(path: str, *, delay: int, period: int) -> JsonObject:
    return {"httpGet": {"path": path, "port": "health"}, "initialDelaySeconds": delay, "periodSeconds": period}
