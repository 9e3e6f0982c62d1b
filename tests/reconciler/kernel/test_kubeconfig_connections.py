"""Kubeconfigs that kubectl accepts, against a TLS server: exec plugins, names, proxies, and whom one stands for."""

from __future__ import annotations

import datetime as dt
import json
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.driver.sessions import read_stat, session_members
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.connection import ConfigurationError, load_configuration
from reconciler.kernel.errors import Unauthorized, Unavailable
from reconciler.kernel.exec_auth import OUTPUT_LIMIT, PluginCredentials, run_plugin
from reconciler.kernel.exec_plugin import ExecPlugin, InteractiveMode, PluginError, parse_credential, read_plugin
from reconciler.kernel.resources import Resource
from reconciler.kernel.retry import RetryPolicy
from tests.reconciler.kernel.secured import Authority, Pair, Server, proxying, secured

pytestmark = pytest.mark.anyio

THINGS = Resource("example.org", "v1", "things", "Thing")
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def server(authority: Authority, tmp_path: Path) -> AsyncIterator[Server]:
    async with secured(authority, tmp_path, "localhost") as running:
        yield running


class Kubeconfig:
    """One that is being written."""

    def __init__(self, directory: Path, authority: Authority, server: Server) -> None:
        self.path = directory / "kubeconfig"
        self.plugin = directory / "bin" / "plugin"
        self.seen = directory / "seen"
        self.answers = directory / "answer"
        self.cluster: dict[str, Any] = {
            "server": f"https://localhost:{server.port}",
            "certificate-authority-data": authority.data,
        }
        self.user: dict[str, Any] = {}

    def uses_plugin(self, version: str = V1, **fields: Any) -> None:
        """Name a plugin that notes what it was told, and prints what `answer` says."""
        self.plugin.parent.mkdir(exist_ok=True)
        self.plugin.write_text(
            f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {self.seen}\n[ -z "$EXTRA" ] || echo "$EXTRA" >> {self.seen}\n'
            f"cat {self.answers}\n"
        )
        self.plugin.chmod(self.plugin.stat().st_mode | stat.S_IXUSR)
        self.user = {"exec": {"apiVersion": version, "command": "./bin/plugin", "interactiveMode": "Never", **fields}}

    def answer(self, version: str = V1, **status: str) -> None:
        """Let the plugin answer this."""
        self.answers.write_text(json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}))

    def answer_pair(self, pair: Pair) -> None:
        """Let the plugin answer with a certificate."""
        self.answer(clientCertificateData=pair.certificate, clientKeyData=pair.key)

    def runs(self) -> list[str]:
        """Return what the plugin was told, once for each run."""
        return self.seen.read_text().splitlines() if self.seen.exists() else []

    def write(self) -> Path:
        """Write it, with an entry beside that only another client could read."""
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "models"}}],
            "clusters": [{"name": "c", "cluster": self.cluster}, {"name": "odd", "cluster": None}],
            "users": [{"name": "odd", "user": {"exec": 7}}, {"name": "u", "user": self.user}],
        }
        self.path.write_text(yaml.safe_dump(content))
        return self.path

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubernetesClient]:
        """Connect with it."""
        client = KubernetesClient.connect(field_manager="tests", kubeconfig=self.write())
        client._policy = RetryPolicy(attempts=1)
        try:
            yield client
        finally:
            await client.close()

    async def ask(self, times: int = 1) -> None:
        """Send requests over one client."""
        async with self.client() as client:
            for _ in range(times):
                assert await client.get(THINGS, "ns", "a")


@pytest.fixture
def kubeconfig(tmp_path: Path, authority: Authority, server: Server) -> Kubeconfig:
    return Kubeconfig(tmp_path, authority, server)


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugins_token_is_sent_and_kept(version: str, kubeconfig: Kubeconfig, server: Server) -> None:
    kubeconfig.uses_plugin(version, env=[{"name": "EXTRA", "value": "given"}], args=None)
    kubeconfig.answer(version, token="t1")
    await kubeconfig.ask(times=2)
    assert [asked.header("Authorization") for asked in server.asked] == [["Bearer t1"], ["Bearer t1"]]
    told, extra = kubeconfig.runs()
    assert json.loads(told) == {"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": False}}
    assert extra == "given"


async def test_a_plugin_is_told_of_the_cluster_if_it_wants_to_know(
    kubeconfig: Kubeconfig, authority: Authority, tmp_path: Path
) -> None:
    kubeconfig.uses_plugin(provideClusterInfo=True)
    kubeconfig.answer(token="t1")
    (tmp_path / "ca.crt").write_text(authority.certificate)
    del kubeconfig.cluster["certificate-authority-data"]
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    kubeconfig.cluster |= {
        "certificate-authority": "ca.crt",
        "tls-server-name": "localhost",
        "extensions": [{"name": "other", "extension": 1}, extension],
    }
    await kubeconfig.ask()
    assert json.loads(kubeconfig.runs()[0])["spec"]["cluster"] == {
        "server": kubeconfig.cluster["server"],
        "certificate-authority-data": authority.data,
        "tls-server-name": "localhost",
        "config": {"audience": "x"},
    }


async def test_a_refused_token_is_asked_for_once_more(kubeconfig: Kubeconfig, server: Server) -> None:
    kubeconfig.uses_plugin()
    kubeconfig.answer(token="t1")
    async with kubeconfig.client() as client:
        await client.get(THINGS, "ns", "a")
        server.admits = lambda asked: asked.header("Authorization") == ["Bearer t2"]
        kubeconfig.answer(token="t2")
        assert await client.get(THINGS, "ns", "a")
        server.admits = lambda _: False
        with pytest.raises(Unauthorized):
            await client.get(THINGS, "ns", "a")
    assert len(kubeconfig.runs()) == 3


async def test_a_plugins_certificate_is_presented_and_the_next_one_after_a_refusal(
    kubeconfig: Kubeconfig, server: Server, authority: Authority
) -> None:
    kubeconfig.uses_plugin()
    kubeconfig.answer_pair(authority.issue("ann"))
    async with kubeconfig.client() as client:
        await client.get(THINGS, "ns", "a")
        await client.get(THINGS, "ns", "a")
        kubeconfig.answer_pair(authority.issue("bea"))
        server.admits = lambda asked: asked.person == "bea"
        await client.get(THINGS, "ns", "a")
    assert [asked.person for asked in server.asked] == ["ann", "ann", "ann", "bea"]
    assert not any(asked.header("Authorization") for asked in server.asked)
    assert len(kubeconfig.runs()) == 2


async def test_a_credential_that_is_over_is_not_sent() -> None:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    plugin, answers = ExecPlugin(api_version=V1, command="x"), iter(("t1", "t2"))

    async def run(_: ExecPlugin) -> bytes:
        status = {"token": next(answers), "expirationTimestamp": "2026-01-01T01:00:00Z"}
        return json.dumps({"apiVersion": V1, "status": status}).encode()

    credentials = PluginCredentials(plugin, run, lambda: now)
    assert [(await credentials.current()).token for _ in range(2)] == ["t1", "t1"]
    now += dt.timedelta(hours=1)
    assert (await credentials.current()).token == "t2"


@pytest.mark.parametrize("script", ["sleep 60", "sleep 60 & exec sleep 60"])
async def test_a_plugin_that_does_not_end_is_ended_with_all_it_started(script: str, tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    plugin = ExecPlugin(api_version=V1, command="sh", arguments=("-c", f"echo $$ > {pids}; {script}"))
    with pytest.raises(PluginError, match=r"exec plugin sh was not done after 0\.5 s"):
        await run_plugin(plugin, terminal=False, seconds=0.5)
    left = [read_stat(pid) for pid in session_members(int(pids.read_text()))]
    assert all(stat is None or stat.state == "Z" for stat in left)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo go away >&2; exit 3", "exec plugin sh ended with 3: go away$"),
        (f"head -c {OUTPUT_LIMIT + 1} /dev/zero; sleep 60", f"more than {OUTPUT_LIMIT} bytes"),
        ("yes x | head -c 100000 >&2; exit 1", r"ended with 1: (x ?){300}$"),
    ],
)
async def test_a_plugin_that_fails_is_quoted_within_bounds(script: str, told: str) -> None:
    plugin = ExecPlugin(api_version=V1, command="sh", arguments=("-c", script))
    with pytest.raises(PluginError, match=told):
        await run_plugin(plugin, terminal=False)


async def test_only_who_may_ask_a_person_gets_the_terminal() -> None:
    read = ExecPlugin(api_version=V1, command="cat", interactive_mode=InteractiveMode.NEVER)
    assert await run_plugin(read, terminal=True) == b""
    with pytest.raises(PluginError, match="interactiveMode: Always"):
        await run_plugin(
            ExecPlugin(api_version=V1, command="cat", interactive_mode=InteractiveMode.ALWAYS), terminal=False
        )


async def test_who_lacks_the_plugin_is_told_where_to_get_it(kubeconfig: Kubeconfig) -> None:
    kubeconfig.user = {"exec": {"apiVersion": V1, "command": "no-such-plugin", "installHint": "get it at the shop"}}
    with pytest.raises(Unauthorized, match=r"no-such-plugin cannot be run: No such file.*\nget it at the shop"):
        await kubeconfig.ask()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("secret junk", "is no ExecCredential"),
        ("[]", "is no ExecCredential"),
        ({"apiVersion": V1BETA1, "status": {"token": "t"}}, f"is of {V1BETA1}"),
        ({"apiVersion": V1}, "has no status"),
        ({"apiVersion": V1, "status": {}}, "neither a token nor a certificate"),
        ({"apiVersion": V1, "status": {"clientKeyData": "k"}}, "only one of"),
        ({"apiVersion": V1, "status": {"token": "a\nb"}}, "more than one line"),
        ({"apiVersion": V1, "status": {"token": "a", "expirationTimestamp": "soon"}}, "no time"),
    ],
)
def test_an_answer_that_kubectl_would_refuse_is_refused_without_quoting_it(answer: Any, told: str) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    with pytest.raises(PluginError, match=told) as refusal:
        parse_credential(ExecPlugin(api_version=V1, command="p"), text.encode())
    assert "junk" not in str(refusal.value)


async def test_a_certificate_that_is_none_is_told_without_quoting_it(kubeconfig: Kubeconfig) -> None:
    kubeconfig.uses_plugin()
    kubeconfig.answer(clientCertificateData="junk", clientKeyData="junk")
    with pytest.raises(Unauthorized, match="has a certificate that cannot be used") as refusal:
        await kubeconfig.ask()
    assert "junk" not in str(refusal.value)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v2", "command": "x"}, "exec.apiVersion"),
        ({"apiVersion": V1}, "exec.command is missing"),
        ({"apiVersion": V1, "command": "x", "interactiveMode": "Maybe"}, "exec.interactiveMode 'Maybe'"),
    ],
)
def test_an_entry_that_cannot_be_used_names_its_field(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        read_plugin(entry, {}, Path("/"))


async def test_a_certificate_may_be_of_another_name_than_the_address(
    kubeconfig: Kubeconfig, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with secured(authority, tmp_path / "other", "kubernetes.default.svc") as named:
        kubeconfig.cluster["server"] = f"https://localhost:{named.port}"
        with pytest.raises(Unavailable, match="localhost"):
            await kubeconfig.ask()
        kubeconfig.cluster["tls-server-name"] = "kubernetes.default.svc"
        await kubeconfig.ask(times=2)
        async with proxying(named.port) as proxy:
            kubeconfig.cluster["proxy-url"] = f"http://localhost:{proxy.port}"
            await kubeconfig.ask()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_is_on_the_way(
    scheme: str, kubeconfig: Kubeconfig, server: Server, authority: Authority, tmp_path: Path
) -> None:
    context = None
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
    async with proxying(server.port, context) as proxy:
        kubeconfig.cluster["server"] = "https://localhost:6443"
        kubeconfig.cluster["proxy-url"] = f"{scheme}://ann:password@localhost:{proxy.port}"
        await kubeconfig.ask()
    assert "CONNECT localhost:6443" in proxy.heads[0]
    assert "proxy-authorization: basic" in proxy.heads[0].lower()
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        ({"proxy-url": "socks5://ann:password@proxy:1080"}, {}, "cluster.proxy-url with socks5 scheme.*kubectl proxy"),
        ({}, {"auth-provider": {"name": "gcp"}}, "user.auth-provider is not supported.*kubectl create token"),
        ({}, {"exec": {"apiVersion": "v9", "command": "x"}}, "exec.apiVersion 'v9'"),
    ],
)
async def test_what_is_not_supported_is_named_with_the_way_around(
    cluster: dict[str, Any], user: dict[str, Any], told: str, kubeconfig: Kubeconfig
) -> None:
    kubeconfig.cluster |= cluster
    kubeconfig.user = user
    with pytest.raises(ConfigurationError, match=told) as refusal:
        load_configuration(kubeconfig.write())
    assert "password" not in str(refusal.value)


async def test_one_may_stand_for_another(kubeconfig: Kubeconfig, server: Server) -> None:
    kubeconfig.user = {
        "token": "t",
        "as": "ann",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"scope/x": ["y"]},
    }
    await kubeconfig.ask()
    (asked,) = server.asked
    assert {name: asked.header(f"Impersonate-{name}") for name in ("User", "Uid", "Group", "Extra-scope%2Fx")} == {
        "User": ["ann"],
        "Uid": ["7"],
        "Group": ["a", "b"],
        "Extra-scope%2Fx": ["y"],
    }


async def test_a_tokens_file_is_found_beside_the_kubeconfig(
    kubeconfig: Kubeconfig, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("t1")
    kubeconfig.user = {"tokenFile": "token"}
    await kubeconfig.ask()
    assert server.asked[0].header("Authorization") == ["Bearer t1"]
    assert load_configuration(kubeconfig.path).namespace == "models"
