"""Reaching a cluster with the caller's own kubeconfig, as kubectl does: its options, and a client that only reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from cli.errors import InputError
from reconciler.kernel.kubeconfig import kubeconfig_file
from reconciler.kernel.resources import KubernetesObject, Resource

if TYPE_CHECKING:
    import httpx2

Command = TypeVar("Command", bound=Callable[..., Any])

_USER_AGENT = "dmctl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What was said about the cluster."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


class Reader(Protocol):
    """What may be asked of the API server: nothing that writes."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> KubernetesObject | None:
        """Read one object, None when it does not exist."""

    async def list(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[KubernetesObject]:
        """Read a whole collection."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open connection, the namespace of its context, and the HTTP client for what is no object."""

    reader: Reader
    namespace: str
    api: httpx2.AsyncClient


def cluster_options(command: Command) -> Command:
    """Give a command kubectl's options that say which cluster and namespace is meant."""
    kubeconfig = click.option("--kubeconfig", metavar="FILE", help="Instead of $KUBECONFIG or ~/.kube/config.")
    context = click.option("--context", metavar="NAME", help="The kubeconfig's context, if not its current one.")
    namespace = click.option(
        "-n", "--namespace", metavar="NAME", help="The namespace of what names none; the context's by default."
    )
    decorated: Command = kubeconfig(context(namespace(command)))
    return decorated


@asynccontextmanager
async def open_cluster(options: ClusterOptions) -> AsyncIterator[Cluster]:
    """Open a connection to the cluster that the options name.

    Raises:
        InputError: There is no usable kubeconfig; the message says what to do.
    """
    # The Kubernetes client brings half a second of imports that other commands do not need.
    from reconciler.kernel.client import KubernetesClient  # noqa: PLC0415
    from reconciler.kernel.connection import load_configuration, open_api_client, open_watch_client  # noqa: PLC0415
    from reconciler.kernel.errors import KernelError  # noqa: PLC0415

    try:
        configuration = load_configuration(kubeconfig_file(options.kubeconfig), options.context)
        api = open_api_client(configuration, _USER_AGENT)
        client = KubernetesClient(
            api,
            open_watch_client(configuration, _USER_AGENT),
            field_manager=_USER_AGENT,
        )
    except KernelError as error:
        next_step = "Name a kubeconfig with --kubeconfig and a context of it with --context."
        raise InputError(str(error), next_step) from error
    try:
        yield Cluster(client, configuration.namespace, api)
    finally:
        await client.close()
