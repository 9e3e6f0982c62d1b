"""What an environment may configure: the typed form of `stacks/Pulumi.<environment>.yaml`."""

from components.configuration.manager import ManagerFlags, RuntimeVersionPolicy
from components.configuration.models import NetworkPolicies, Retain, WaitForModels
from components.configuration.monitoring import (
    AlertThresholds,
    AlertWindows,
    GrafanaDashboard,
    Metrics,
    MetricsEndpoint,
    PrometheusRule,
    ServiceMonitor,
)
from components.configuration.platform import PlatformConfiguration
from components.configuration.policy import PolicyRules
from components.configuration.reading import ConfigurationError, read_configuration
from components.configuration.state import S3State, StateVolume
from components.configuration.workload import Proxy

__all__ = [
    "AlertThresholds",
    "AlertWindows",
    "ConfigurationError",
    "GrafanaDashboard",
    "ManagerFlags",
    "Metrics",
    "MetricsEndpoint",
    "NetworkPolicies",
    "PlatformConfiguration",
    "PolicyRules",
    "PrometheusRule",
    "Proxy",
    "Retain",
    "RuntimeVersionPolicy",
    "S3State",
    "ServiceMonitor",
    "StateVolume",
    "WaitForModels",
    "read_configuration",
]
