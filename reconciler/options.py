"""The reconciler's command line: the flags of spec section 11.1, checked before anything starts.

Flags keep the names of the decision-model-operator, so that existing arguments go on working. Booleans take a value as
they do there: `--leader-elect` and `--leader-elect=false` are both understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from components.program import CLUSTER_IDENTIFIER, ProviderSettings
from policy import PolicyError
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.errors import InvalidEndpoint
from reconciler.engine.images import RuntimeVersionPolicy
from reconciler.engine.proxy import ProxySettings, inherited_proxy
from reconciler.engine.registry_policy import (
    DEFAULT_REGISTRY_URL,
    RegistryPolicy,
    parse_allowed_registries,
    parse_endpoint,
)
from reconciler.kernel.certificates import CertificateFiles
from reconciler.kernel.errors import KernelError
from reconciler.kernel.health import BindAddress, parse_bind_address
from reconciler.policy_file import read_policy
from reconciler.watched_namespaces import parse_namespaces

T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_BACKEND = re.compile(r"(?:file|s3)://.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that was said on the command line or in the environment, checked."""

    controller: ControllerSettings
    proxy: ProxySettings
    namespaces: tuple[str, ...]
    leader_elect: bool
    workers: int
    metrics: BindAddress | None
    metrics_secure: bool = False
    """TLS, and only for scrapers that the API server admits."""
    metrics_certificate: CertificateFiles | None = None
    """None: one issued at start."""
    health: BindAddress | None
    kubeconfig: Path | None
    pulumi: Path
    pulumi_home: Path
    backend_url: str
    work_directory: Path
    stack_workers: int | None
    console: bool
    log_level: str


def flag(name: str, help_: str, *, default: bool = False) -> Callable[[Decorated], Decorated]:
    """Declare a boolean as Go programs have it: alone it means true, and it takes `=false`."""
    text = str(default).lower()
    return click.option(name, is_flag=False, flag_value="true", default=text, type=bool, metavar="[=BOOL]", help=help_)


class LogLevel(click.Choice[str]):
    """The levels that zap's own flag takes: by name, or as a number for more and more detail."""

    def __init__(self) -> None:
        super().__init__(["debug", "info", "error", "panic"])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the nearest level that the log has."""
        if value.isdecimal() and int(value) > 0:
            return "debug"
        level = super().convert(value, param, ctx)
        return "error" if level == "panic" else level


def ignored(name: str) -> Callable[[Decorated], Decorated]:
    """Declare an option that existing argument lists may hold and that means nothing here."""
    return click.option(
        name, is_flag=False, flag_value="true", expose_value=False, metavar="[=VALUE]", help="Accepted; has no effect."
    )


_DECLARATIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--metrics-bind-address", default="0", metavar="ADDRESS", help="Where /metrics listens; 0: nowhere."),
    flag("--metrics-secure", "TLS for /metrics, and only for accounts that may get it.", default=True),
    click.option(
        "--metrics-cert-path",
        default="",
        metavar="DIRECTORY",
        help="Holds the certificate for /metrics; without one it is issued at start.",
    ),
    click.option("--metrics-cert-name", default="tls.crt", metavar="FILE", help="The certificate in it."),
    click.option("--metrics-cert-key", default="tls.key", metavar="FILE", help="Its key."),
    click.option("--health-probe-bind-address", default=":8081", metavar="ADDRESS", help="/healthz and /readyz."),
    flag("--leader-elect", "Take a Lease first, so that only one of several replicas works."),
    click.option("--allowed-registries", default="ollaya.dev", metavar="HOSTS", help="Hosts a model may come from."),
    flag("--allow-insecure-registries", "Permit registries without TLS; for development."),
    flag("--allow-image-override", "Permit spec.image."),
    flag("--allow-unpinned-runtime-images", "Permit runtime images without a digest."),
    click.option(
        "--ollaya-registry", envvar="OLLAYA_REGISTRY", metavar="URL", help="Registry of names without a host."
    ),
    click.option("--ollaya-hf-endpoint", envvar="OLLAYA_HF_ENDPOINT", metavar="URL", help="Mirror of the weight host."),
    click.option("--max-concurrent-reconciles", default=4, type=click.IntRange(1, 64), help="Passes at once."),
    click.option(
        "--max-concurrent-rollouts", default=0, type=click.IntRange(min=0), help="Rollouts at once; 0: no limit."
    ),
    click.option(
        "--runtime-version-policy",
        default=RuntimeVersionPolicy.PINNED.value,
        type=click.Choice([policy.value for policy in RuntimeVersionPolicy]),
        help="What an unset spec.runtimeVersion means.",
    ),
    click.option(
        "--policy-config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Rules that a revision must keep before it is applied (docs/policy.md).",
    ),
    click.option("--policy-environment", metavar="NAME", help="Which of that file's environments this is."),
    click.option("--watch-namespaces", default="", metavar="NAMES", help="Comma-separated; empty: all of them."),
    click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Instead of the Pod's account."),
    click.option(
        "--pulumi",
        envvar="PULUMI_COMMAND",
        default="/usr/local/bin/pulumi",
        type=click.Path(path_type=Path),
        help="The Pulumi CLI.",
    ),
    click.option(
        "--pulumi-home",
        envvar="PULUMI_HOME",
        default="/opt/pulumi",
        type=click.Path(path_type=Path),
        help="Holds plugins/.",
    ),
    click.option(
        "--state-backend",
        envvar="PULUMI_BACKEND_URL",
        default="file:///var/lib/decisionmodel/state",
        metavar="URL",
        help="Where stacks are kept: file:// or s3://.",
    ),
    click.option(
        "--work-directory",
        envvar="DECISIONMODEL_WORK_DIRECTORY",
        default="/var/lib/decisionmodel/work",
        type=click.Path(path_type=Path),
        help="Scratch space of stack operations.",
    ),
    click.option("--stack-workers", type=click.IntRange(1, 32), help="Stack operations at once; default: the cores."),
    click.option("--stack-deadline", default=120.0, type=click.FloatRange(min=10.0), help="Seconds one may take."),
    click.option("--zap-encoder", default="json", type=click.Choice(["json", "console"]), help="Format of the log."),
    click.option(
        "--zap-log-level", default="info", type=LogLevel(), help="Detail of the log; a number above 0 means debug."
    ),
    # Endpoints speak HTTP/1.1 only, and there is no webhook.
    ignored("--enable-http2"),
    ignored("--webhook-cert-path"),
    ignored("--webhook-cert-name"),
    ignored("--webhook-cert-key"),
    # The log has one format for each encoder, with times as RFC 3339 has them and traces where they help.
    ignored("--zap-devel"),
    ignored("--zap-stacktrace-level"),
    ignored("--zap-time-encoding"),
)


def declared(command: Decorated) -> Decorated:
    """Add every option of the reconciler to a click command."""
    for declaration in reversed(_DECLARATIONS):
        command = declaration(command)
    return command


def read_options(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Options:
    """Check the flags and return what they mean.

    Raises:
        click.BadParameter: One of them cannot be used; the message names it and says what to do.
    """
    proxy = inherited_proxy(environment)
    return Options(
        controller=controller_settings(flags, proxy),
        proxy=proxy,
        namespaces=parse_namespaces(flags["watch_namespaces"]),
        leader_elect=flags["leader_elect"],
        workers=flags["max_concurrent_reconciles"],
        metrics=bind_address("--metrics-bind-address", flags["metrics_bind_address"]),
        metrics_secure=flags["metrics_secure"],
        metrics_certificate=metrics_certificate(flags),
        health=bind_address("--health-probe-bind-address", flags["health_probe_bind_address"]),
        kubeconfig=flags["kubeconfig"],
        pulumi=flags["pulumi"],
        pulumi_home=flags["pulumi_home"],
        backend_url=state_backend(flags["state_backend"]),
        work_directory=flags["work_directory"],
        stack_workers=flags["stack_workers"],
        console=flags["zap_encoder"] == "console",
        log_level=flags["zap_log_level"],
    )


def metrics_certificate(flags: Mapping[str, Any]) -> CertificateFiles | None:
    """Return the files that the flags name, None when they name no directory."""
    if not flags["metrics_cert_path"]:
        return None
    directory = Path(flags["metrics_cert_path"])
    return CertificateFiles(directory / flags["metrics_cert_name"], directory / flags["metrics_cert_key"])


def state_backend(url: str) -> str:
    """Check where stacks are kept.

    Raises:
        click.BadParameter: It is none of the supported backends. The message does not repeat it: it may hold secrets.
    """
    if not _BACKEND.fullmatch(url):
        raise click.BadParameter("--state-backend must be a file:// or s3:// URL")
    return url


def controller_settings(flags: Mapping[str, Any], proxy: ProxySettings) -> ControllerSettings:
    """Return the policies that the flags describe.

    Raises:
        click.BadParameter: An address or a list is unusable.
    """
    insecure = bool(flags["allow_insecure_registries"])

    def endpoint(option: str, value: str) -> str:
        return _checked(lambda: parse_endpoint(option, value, allow_insecure=insecure))

    registry_url = endpoint("--ollaya-registry", flags["ollaya_registry"] or DEFAULT_REGISTRY_URL)
    hf_endpoint = flags["ollaya_hf_endpoint"]
    kubeconfig = flags["kubeconfig"]
    settings = ControllerSettings(
        max_concurrent_rollouts=flags["max_concurrent_rollouts"],
        registries=RegistryPolicy(
            registry_url=registry_url,
            allowed=_checked(lambda: parse_allowed_registries(flags["allowed_registries"])),
            allow_insecure=insecure,
        ),
        provider=ProviderSettings(
            kubeconfig=None if kubeconfig is None else str(kubeconfig), cluster_identifier=CLUSTER_IDENTIFIER
        ),
        hf_endpoint=endpoint("--ollaya-hf-endpoint", hf_endpoint) if hf_endpoint else None,
        allow_image_override=flags["allow_image_override"],
        allow_unpinned_images=flags["allow_unpinned_runtime_images"],
        runtime_version_policy=RuntimeVersionPolicy(flags["runtime_version_policy"]),
        proxy=proxy.variables,
        stack_deadline=flags["stack_deadline"],
    )
    path = flags["policy_config"]
    if path is None:
        return settings
    try:
        return replace(settings, policy=read_policy(path, flags["policy_environment"], settings))
    except PolicyError as error:
        raise click.BadParameter(f"--policy-config: {error}") from error


def bind_address(option: str, text: str) -> BindAddress | None:
    """Read a bind address; "0" switches the endpoint off.

    Raises:
        click.BadParameter: It is unusable.
    """
    try:
        return parse_bind_address(text)
    except KernelError as error:
        raise click.BadParameter(f"{option}: {error}") from error


def _checked(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except InvalidEndpoint as error:
        raise click.BadParameter(str(error)) from error
