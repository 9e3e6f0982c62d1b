"""How an environment is watched: metrics, who scrapes them, alerts and the dashboard (spec sections 10 and 11.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.configuration.section import NamespaceName, ObjectName, Section

_BIND_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):(?P<port>[0-9]{1,5})")

PrometheusDuration = Annotated[str, StringConstraints(pattern=r"^([0-9]+(ms|[smhdwy]))+$")]
"""A duration as Prometheus writes it: 90s, 15m, 1h30m."""
Share = Annotated[float, Field(ge=0, le=1)]


def _with_port(text: str) -> str:
    match = _BIND_ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65_536:
        raise ValueError(f"{text[:64]!r} is no address with a port, such as :8443")
    return text


BindAddress = Annotated[str, AfterValidator(_with_port)]


@dataclass(frozen=True, slots=True)
class MetricsEndpoint:
    """Where metrics are served, and whether by TLS to authorized scrapers only."""

    bind_address: str
    secure: bool

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.bind_address.rpartition(":")[2])


class SecretKey(Section):
    """One key of a Secret, in the namespace of the object that refers to it."""

    name: ObjectName
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = "ca.crt"


class ServiceMonitor(Section):
    """What makes a Prometheus operator scrape the reconciler."""

    enabled: bool = False
    namespace: NamespaceName | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    interval: PrometheusDuration | None = None
    scrape_timeout: PrometheusDuration | None = None
    tls_verify: bool = False
    """Only possible with a certificate of one's own (`metrics.certificateSecret`)."""
    tls_server_name: str | None = None
    ca_secret: SecretKey | None = None


class Metrics(Section):
    """The reconciler's `/metrics`."""

    enabled: bool = True
    bind_address: BindAddress = ":8443"
    secure: bool = True
    """TLS, and only for accounts that may get `/metrics`; without it plain HTTP for whoever reaches the port."""
    certificate_secret: ObjectName | None = None
    """A Secret with `tls.crt` and `tls.key`; without one the reconciler issues itself a certificate at start."""
    service_monitor: ServiceMonitor = ServiceMonitor()

    @model_validator(mode="after")
    def _only_a_given_certificate_can_be_verified(self) -> Self:
        if not self.service_monitor.tls_verify:
            return self
        if not self.secure:
            raise ValueError("serviceMonitor.tlsVerify: needs secure; plain HTTP has no certificate to verify")
        if self.certificate_secret is None:
            raise ValueError(
                "serviceMonitor.tlsVerify: needs certificateSecret; nobody knows a certificate made at start"
            )
        return self

    @property
    def endpoint(self) -> MetricsEndpoint | None:
        """What is served; None when nothing is."""
        return MetricsEndpoint(self.bind_address, self.secure) if self.enabled else None


class AlertWindows(Section):
    """How long a state has to last before an alert fires."""

    rollout_stuck: PrometheusDuration = "15m"
    candidate_timeout: PrometheusDuration = "20m"
    rollout_queued: PrometheusDuration = "30m"
    degraded: PrometheusDuration = "10m"
    operator_down: PrometheusDuration = "5m"


class AlertThresholds(Section):
    """What a model's last evaluation has to keep to."""

    min_accuracy: Share = 0.8
    min_macro_f1: Annotated[Share, Field(alias="minMacroF1")] = 0.7
    max_ece: Share = 0.15


class PrometheusRule(Section):
    """The alerts of spec section 10.2."""

    enabled: bool = False
    namespace: NamespaceName | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    runbook_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = None
    """The folder of runbooks; each alert links `<alert's name>.md` in it."""
    windows: AlertWindows = AlertWindows()
    thresholds: AlertThresholds = AlertThresholds()


class GrafanaDashboard(Section):
    """The dashboard, as a ConfigMap that Grafana's sidecar finds by its labels."""

    enabled: bool = False
    namespace: NamespaceName | None = None
    labels: Mapping[str, str] = Field(default_factory=lambda: {"grafana_dashboard": "1"})
    folder: str | None = None
