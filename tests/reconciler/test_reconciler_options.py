"""The reconciler's command line: what existing argument lists may say, and how a wrong one is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from reconciler import main as program
from reconciler.engine.images import RuntimeVersionPolicy
from reconciler.kernel.certificates import CertificateFiles
from reconciler.kernel.health import BindAddress
from reconciler.options import Options, declared, read_options


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[Result, list[Options]]:
    """Read arguments as the program does; returns click's result and the options, if they were accepted."""
    accepted: list[Options] = []

    @click.command()
    @declared
    def command(**flags: object) -> None:
        accepted.append(read_options(flags, environment or {}))

    return CliRunner(env=dict(environment or {})).invoke(command, list(arguments)), accepted


def parsed(*arguments: str, environment: Mapping[str, str] | None = None) -> Options:
    result, accepted = run(*arguments, environment=environment)
    assert result.exit_code == 0, result.output
    return accepted[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--metrics-bind-address=:8080", "--metrics-secure=false"],
        ["--metrics-bind-address=0"],
        ["--metrics-secure"],
        ["--metrics-cert-path=/certs", "--metrics-cert-name=tls.crt", "--metrics-cert-key=tls.key"],
        ["--webhook-cert-path=/certs", "--webhook-cert-name=tls.crt", "--webhook-cert-key=tls.key"],
        ["--enable-http2"],
        ["--enable-http2=false"],
        ["--health-probe-bind-address=:8081"],
        ["--leader-elect"],
        ["--leader-elect=false"],
        ["--allowed-registries=ollaya.dev,mirror.example:5000"],
        ["--allow-insecure-registries"],
        ["--allow-insecure-registries=false"],
        ["--allow-image-override"],
        ["--allow-image-override=false"],
        ["--allow-unpinned-runtime-images"],
        ["--allow-unpinned-runtime-images=false"],
        ["--ollaya-registry=https://mirror.example"],
        ["--ollaya-registry="],
        ["--ollaya-hf-endpoint=https://mirror.example"],
        ["--max-concurrent-reconciles=8"],
        ["--max-concurrent-rollouts=2"],
        ["--runtime-version-policy=FollowOperator"],
        ["--watch-namespaces=one,two"],
        ["--zap-encoder=console", "--zap-log-level=debug"],
        ["--zap-devel", "--zap-stacktrace-level=error", "--zap-time-encoding=rfc3339"],
        ["--zap-devel=false"],
    ],
    ids=" ".join,
)
def test_every_flag_is_understood(arguments: list[str]) -> None:
    parsed(*arguments)


@pytest.mark.parametrize(
    ("said", "meant"), [("debug", "debug"), ("info", "info"), ("error", "error"), ("panic", "error"), ("2", "debug")]
)
def test_every_level_of_zaps_own_flag_is_the_nearest_of_ours(said: str, meant: str) -> None:
    assert parsed(f"--zap-log-level={said}").log_level == meant


def test_what_is_not_said_has_its_documented_default() -> None:
    options = parsed()
    assert options.metrics is None
    assert options.health == BindAddress("", 8081)
    assert not options.leader_elect
    assert options.namespaces == ()
    assert options.workers == 4
    assert options.controller.registries.registry_url == "https://ollaya.dev"
    assert options.controller.registries.allowed == {"ollaya.dev"}
    assert not options.controller.registries.allow_insecure
    assert not options.controller.allow_image_override
    assert not options.controller.allow_unpinned_images
    assert options.controller.runtime_version_policy is RuntimeVersionPolicy.PINNED
    assert options.controller.hf_endpoint is None


def test_what_is_said_is_what_counts() -> None:
    options = parsed(
        "--leader-elect",
        "--allow-image-override=true",
        "--watch-namespaces=two, one,two",
        "--ollaya-registry=https://Mirror.Example:443/path/",
        "--metrics-bind-address=127.0.0.1:9000",
        "--max-concurrent-reconciles=8",
    )
    assert options.leader_elect
    assert options.controller.allow_image_override
    assert options.namespaces == ("two", "one")
    assert options.controller.registries.registry_url == "https://mirror.example/path"
    assert options.metrics == BindAddress("127.0.0.1", 9000)
    assert options.workers == 8


def test_the_environment_speaks_where_the_command_line_is_silent() -> None:
    environment = {
        "OLLAYA_REGISTRY": "https://mirror.example",
        "OLLAYA_HF_ENDPOINT": "https://weights.example",
        "DECISIONMODEL_WORK_DIRECTORY": "/scratch",
        "PULUMI_BACKEND_URL": "s3://bucket?region=eu",
    }
    options = parsed(environment=environment)
    assert options.controller.registries.registry_url == "https://mirror.example"
    assert options.controller.hf_endpoint == "https://weights.example"
    assert options.work_directory == Path("/scratch")
    assert options.backend_url == "s3://bucket?region=eu"
    assert parsed("--work-directory=/other", environment=environment).work_directory == Path("/other")
    assert parsed(
        "--ollaya-registry=https://said.example", environment=environment
    ).controller.registries.registry_url == ("https://said.example")


@pytest.mark.parametrize(
    "argument",
    [
        "--metrics-bind-address=nowhere",
        "--metrics-bind-address=:99999",
        "--health-probe-bind-address=8081",
        "--leader-elect=perhaps",
        "--allowed-registries=",
        "--allowed-registries=a.example,,b.example",
        "--allowed-registries=https://a.example",
        "--ollaya-registry=http://plain.example",
        "--ollaya-registry=ollaya.dev",
        "--ollaya-registry=https://user:secret@a.example",
        "--ollaya-registry=https://a.example?x=1",
        "--ollaya-hf-endpoint=ftp://a.example",
        "--max-concurrent-reconciles=0",
        "--max-concurrent-reconciles=many",
        "--max-concurrent-rollouts=-1",
        "--runtime-version-policy=Newest",
        "--watch-namespaces=one,,two",
        "--watch-namespaces=Upper",
        "--watch-namespaces=a_b",
        "--state-backend=/var/lib",
        "--state-backend=https://api.pulumi.com",
        "--stack-workers=0",
        "--stack-deadline=1",
        "--zap-encoder=xml",
        "--zap-log-level=loud",
        "--zap-log-level=0",
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_flag(argument: str) -> None:
    flag, _, value = argument.partition("=")
    result, accepted = run(argument)

    assert result.exit_code == 2
    assert not accepted
    assert flag in result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    if "secret" in value:
        assert "secret" not in result.output


def test_metrics_are_secure_unless_plain_ones_are_asked_for() -> None:
    assert parsed("--metrics-bind-address=:8443").metrics_secure
    assert parsed("--metrics-bind-address=:8443", "--metrics-cert-path=").metrics_certificate is None
    assert not parsed("--metrics-bind-address=:8080", "--metrics-secure=false").metrics_secure


def test_the_metrics_certificate_is_looked_for_in_its_directory() -> None:
    assert parsed("--metrics-cert-path=/certs").metrics_certificate == CertificateFiles(
        Path("/certs/tls.crt"), Path("/certs/tls.key")
    )
    assert parsed(
        "--metrics-cert-path=/certs", "--metrics-cert-name=chain.pem", "--metrics-cert-key=key.pem"
    ).metrics_certificate == CertificateFiles(Path("/certs/chain.pem"), Path("/certs/key.pem"))


def test_an_unknown_flag_is_refused() -> None:
    result, _ = run("--no-such-flag")
    assert result.exit_code == 2
    assert "--no-such-flag" in result.output


def test_plain_http_has_to_be_allowed_by_name() -> None:
    options = parsed("--ollaya-registry=http://registry.example:5000", "--allow-insecure-registries")
    assert options.controller.registries.registry_url == "http://registry.example:5000"


def test_proxies_with_credentials_are_not_copied() -> None:
    environment = {"HTTPS_PROXY": "http://user:secret@proxy.example:3128", "NO_PROXY": "cluster.local"}
    options = parsed(environment=environment)
    assert [variable.name for variable in options.controller.proxy] == ["NO_PROXY"]
    assert options.proxy.skipped == ("HTTPS_PROXY",)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Take back what the program does to the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_without_credentials_the_program_says_so_and_ends(tmp_path: Path, own_logging: None) -> None:
    result = CliRunner().invoke(program.main, [f"--kubeconfig={tmp_path / 'missing'}"])
    assert result.exit_code == 1
    assert str(tmp_path / "missing") in result.output
    assert "Traceback" not in result.output


def test_help_names_every_option() -> None:
    result = CliRunner().invoke(program.main, ["--help"])
    assert result.exit_code == 0
    for option in ("--allowed-registries", "--watch-namespaces", "--state-backend", "--enable-http2"):
        assert option in result.output
