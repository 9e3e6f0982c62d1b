"""The whole configuration of one environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, WrapValidator, model_validator

from api.scheduling import Affinity, Toleration
from components.configuration.manager import ManagerFlags
from components.configuration.models import NetworkPolicies, Retain, WaitForModels
from components.configuration.monitoring import GrafanaDashboard, Metrics, MetricsEndpoint, PrometheusRule
from components.configuration.policy import PolicyRules
from components.configuration.section import FROM_JSON, ObjectName, Section, nothing_ignored
from components.configuration.state import StateVolume
from components.configuration.workload import ImagePullPolicy, Proxy, Resources, ServiceAccount

_WHOLE = WrapValidator(nothing_ignored)


class PlatformConfiguration(Section):
    """One environment."""

    image: Annotated[str, Field(min_length=1)]
    """The reconciler's image."""
    image_pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    image_pull_secrets: Annotated[tuple[ObjectName, ...], FROM_JSON] = ()
    """Names of Secrets in the reconciler's namespace."""
    replicas: Annotated[int, Field(ge=1)] = 1
    resources: Annotated[Resources, FROM_JSON] = Resources()
    node_selector: Annotated[Mapping[str, str], FROM_JSON] = Field(default_factory=dict)
    tolerations: Annotated[tuple[Annotated[Toleration, _WHOLE], ...], FROM_JSON] = ()
    affinity: Annotated[Annotated[Affinity, _WHOLE], FROM_JSON] = Affinity()
    service_account: Annotated[ServiceAccount, FROM_JSON] = ServiceAccount()
    manager: Annotated[ManagerFlags, FROM_JSON] = ManagerFlags()
    policy: Annotated[PolicyRules, FROM_JSON] = PolicyRules()
    proxy: Annotated[Proxy, FROM_JSON] = Proxy()
    environment: Annotated[Mapping[str, str], FROM_JSON] = Field(default_factory=dict)
    """Further variables of the reconciler's container. Not for secrets: they are kept in the stack's state as they
    stand."""
    state: Annotated[StateVolume, FROM_JSON] = StateVolume()
    metrics: Annotated[Metrics, FROM_JSON] = Metrics()
    prometheus_rule: Annotated[PrometheusRule, FROM_JSON] = PrometheusRule()
    grafana_dashboard: Annotated[GrafanaDashboard, FROM_JSON] = GrafanaDashboard()
    network_policies: Annotated[NetworkPolicies, FROM_JSON] = NetworkPolicies()
    install_crds: bool = True
    """Whether the definition of a DecisionModel is this environment's; only one on a cluster can own it."""
    models: str | None = None
    """The directory under `stacks/` with the environment's models; the stack's name when unset."""
    wait_for_models: Annotated[WaitForModels, FROM_JSON] = WaitForModels()
    retain: Annotated[Retain, FROM_JSON] = Retain()

    @property
    def metrics_endpoint(self) -> MetricsEndpoint | None:
        """Where metrics are served, whichever key says so."""
        if self.manager.metrics_bind_address is not None:
            return MetricsEndpoint(self.manager.metrics_bind_address, secure=False)
        return self.metrics.endpoint

    @property
    def policed_namespaces(self) -> tuple[str, ...]:
        """The namespaces with network policies."""
        if not self.network_policies.enabled:
            return ()
        return self.network_policies.namespaces or self.manager.watch_namespaces

    @model_validator(mode="after")
    def _one_of_several_leads(self) -> Self:
        if self.replicas > 1 and not self.manager.leader_elect:
            raise ValueError("replicas: more than one needs manager.leaderElect, or they would all act at once")
        return self

    @model_validator(mode="after")
    def _several_share_a_state(self) -> Self:
        if self.replicas > 1 and not self.state.s3 and self.state.size:
            raise ValueError("replicas: more than one needs state.s3, since state.size is a volume for one node")
        return self

    @model_validator(mode="after")
    def _metrics_are_configured_once(self) -> Self:
        twice = self.metrics.model_fields_set & {"enabled", "bind_address", "secure", "certificate_secret"}
        if self.manager.metrics_bind_address is not None and twice:
            raise ValueError("manager.metricsBindAddress: metrics says the same: set one of the two")
        return self

    @model_validator(mode="after")
    def _scraped_metrics_are_served(self) -> Self:
        if self.metrics.service_monitor.enabled and self.metrics_endpoint is None:
            raise ValueError("metrics.serviceMonitor: there is nothing to scrape while metrics.enabled is false")
        return self

    @model_validator(mode="after")
    def _policies_have_a_place(self) -> Self:
        if self.network_policies.enabled and not self.policed_namespaces:
            raise ValueError("networkPolicies.namespaces: is needed unless manager.watchNamespaces lists some")
        return self
