"""Whose stacks the cluster says they are, as far as the account may ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.state.access import live_stacks
from components import names
from components.desired import Owner
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KernelError
from tests.cli.commands import Dmctl
from tests.fakes.apiserver import FakeApiServer


def declare(server: FakeApiServer, namespace: str) -> str:
    """Declare a DecisionModel and return the name of its stack."""
    owner = Owner(namespace=namespace, name="fraud", uid=f"{namespace}-0000-4000-8000-000000000000")
    metadata = {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid}
    server.put("decisionmodel.io/v1alpha1", "decisionmodels", {"kind": "DecisionModel", "metadata": metadata})
    return names.stack(owner)


@pytest.mark.anyio
async def test_an_account_with_roles_in_namespaces_asks_in_those(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        shop, bank, _ = (declare(server, namespace) for namespace in ("shop0000", "bank0000", "else0000"))
        server.fail(
            403,
            matches=lambda request: (
                not any(f"/namespaces/{each}/" in request.path for each in ("shop0000", "bank0000"))
            ),
        )
        client = KubernetesClient.connect(field_manager="tests", kubeconfig=server.write_kubeconfig(tmp_path / "k"))
        try:
            assert await live_stacks(client, ("shop0000", "bank0000")) == {shop, bank}
            with pytest.raises(KernelError):
                await live_stacks(client, ())
        finally:
            await client.close()


@pytest.mark.parametrize("content", ["", "junk", "[]", "{}", '{"deployment": 3}'])
def test_an_unusable_file_to_restore_is_named_and_no_stack_blamed(dmctl: Dmctl, content: str) -> None:
    file = dmctl.write("before.json", content)
    done = dmctl("state", "restore", "shop.fraud.1a2b3c4d", file, "--backend=file://.", "--pulumi=pulumi")
    assert done.code == 3
    assert done.err.startswith("Error: before.json: ")
    assert done.err.endswith("\nName a file that `dmctl state export` wrote.\n")
