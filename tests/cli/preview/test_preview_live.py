"""A preview that names no environment: it asks the cluster's own reconciler, and registries inside the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from cli.forecast import Forecast
from cli.preview.service_proxy import by_service_proxy, proxied_path
from components.platform.metadata import MANAGER_NAME, SYSTEM_NAMESPACE
from reconciler.controller.watched import DEPLOYMENTS
from reconciler.engine.errors import ResolveFailed, TagNotFound
from reconciler.engine.names import ModelName
from reconciler.engine.registry import RegistryClient
from reconciler.engine.registry_policy import RegistryPolicy
from tests.cli.preview.asking import Asked

pytestmark = pytest.mark.anyio


def deploy(asked: Asked, *arguments: str, **variables: str) -> None:
    """Put the reconciler's Deployment into the cluster."""
    env = [{"name": name, "value": value} for name, value in variables.items()]
    env.append({"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})  # type: ignore[dict-item]
    container = {"name": "manager", "args": list(arguments), "env": env}
    asked.bed.server.put(
        DEPLOYMENTS.api_version,
        DEPLOYMENTS.plural,
        {
            "kind": "Deployment",
            "metadata": {"name": MANAGER_NAME, "namespace": SYSTEM_NAMESPACE},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    )


def of_registry(asked: Asked) -> tuple[str, ...]:
    """The flags that the bed's reconciler would be started with."""
    url = asked.bed.registry.base_url
    return f"--allowed-registries={url.partition('://')[2]}", "--allow-insecure-registries"


async def forecast(asked: Asked, **spec: Any) -> Forecast:
    (only,) = await asked.preview(asked.manifest(**spec), knows_settings=False)
    return only.forecast


async def test_the_live_reconciler_says_which_registry_is_asked(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(asked, *of_registry(asked), OLLAYA_REGISTRY=asked.bed.registry.base_url)
    told = await forecast(asked)
    assert told.after is not None
    assert told.after.digest
    assert capsys.readouterr().err == ""


async def test_a_flag_of_the_live_reconciler_counts_and_its_files_do_not(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    url = asked.bed.registry.base_url
    files = ("--policy-config=/etc/policy/rules.yaml", "--policy-environment=prod", "--kubeconfig=/nowhere")
    deploy(asked, f"--ollaya-registry={url}", *of_registry(asked), *files, "--watch-namespaces=elsewhere")
    told = await forecast(asked)
    assert told.refused is not None
    assert told.refused.reason == "NotWatched"
    assert "has policy rules of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda _: None, "there is no Deployment"),
        (lambda asked: deploy(asked, "--a-flag-of-tomorrow=1"), "not those of this version"),
        (
            lambda asked: asked.bed.server.fail(403, matches=lambda each: each.path.endswith(MANAGER_NAME)),
            "cannot be read",
        ),
    ],
    ids=["none", "unknown flags", "forbidden"],
)
async def test_without_a_live_reconciler_the_defaults_are_supposed_and_that_is_said(
    asked: Asked, capsys: pytest.CaptureFixture[str], prepare: Callable[[Asked], None], said: str
) -> None:
    prepare(asked)
    told = await forecast(asked, digest="ab" * 32)
    assert told.after is not None
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert line.endswith("the reconciler's defaults are supposed, --stack names an environment")


# Registries inside the cluster.


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://reg.models.svc:5000/v2/a?b=c", "/api/v1/namespaces/models/services/http:reg:5000/proxy/v2/a?b=c"),
        ("https://reg.models.svc.cluster.local/v2", "/api/v1/namespaces/models/services/https:reg:443/proxy/v2"),
        ("http://reg.models.svc/", "/api/v1/namespaces/models/services/http:reg:80/proxy/"),
        ("https://ollaya.dev/v2/a", None),
        ("http://a.b.c.svc/v2", None),
        ("http://svc/v2", None),
        ("http://reg.models.svc.example.com/v2", None),
    ],
)
def test_only_a_service_has_a_path_below_the_api_server(url: str, path: str | None) -> None:
    assert proxied_path(httpx2.URL(url)) == path


NAME = ModelName.parse("laya:en")
INSIDE = RegistryPolicy(
    registry_url="http://reg.models.svc:5000", allowed=frozenset({"reg.models.svc:5000"}), allow_insecure=True
)
MANIFEST = json.dumps({"schemaVersion": 2}).encode()
PROXIED = "/api/v1/namespaces/models/services/http:reg:5000/proxy/v2/library/laya/manifests/en"


async def resolved(status: int, direct: httpx2.MockTransport) -> tuple[Any, list[str]]:
    """Resolve a name through an API server that answers so; returns the outcome and what the API server was asked."""
    asked_for: list[str] = []

    def api(request: httpx2.Request) -> httpx2.Response:
        asked_for.append(request.url.path)
        return httpx2.Response(status, content=MANIFEST)

    async def wait(_: float) -> None: ...

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(api), base_url="https://api") as server:
        outside = httpx2.AsyncClient(transport=direct)
        client = RegistryClient(INSIDE, sleep=wait, route=lambda _: by_service_proxy(server, outside))
        try:
            return (await client.resolve(NAME)).content, asked_for
        except (ResolveFailed, TagNotFound) as error:
            return error, asked_for
        finally:
            await client.aclose()


def unreachable(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("name not known", request=request)


async def test_a_registry_inside_is_asked_through_the_api_server() -> None:
    content, asked_for = await resolved(200, httpx2.MockTransport(unreachable))
    assert (content, asked_for) == (MANIFEST, [PROXIED])


async def test_what_the_registry_says_there_counts() -> None:
    error, _ = await resolved(404, httpx2.MockTransport(unreachable))
    assert isinstance(error, TagNotFound)


async def test_who_may_not_use_the_proxy_asks_directly() -> None:
    content, asked_for = await resolved(403, httpx2.MockTransport(lambda _: httpx2.Response(200, content=MANIFEST)))
    assert (content, asked_for) == (MANIFEST, [PROXIED])
    error, _ = await resolved(403, httpx2.MockTransport(unreachable))
    assert isinstance(error, ResolveFailed)
