"""Fixtures of the kernel's tests: a fake API server and a client connected to it the way the product connects."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.kernel.client import KubernetesClient
from tests.fakes.apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubernetesClient]:
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    connected = KubernetesClient.connect(field_manager="tests", kubeconfig=kubeconfig)
    yield connected
    await connected.close()
