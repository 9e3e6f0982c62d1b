"""What the commands work on: the backend through the CLI, and the cluster that says whose stacks they are."""

from __future__ import annotations

import asyncio
import shutil
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from api.keys import LEADER_LEASE
from cli.errors import InputError
from cli.state.findings import PROJECT
from components import names
from components.desired import Owner
from components.errors import InvalidNameError
from components.platform.metadata import SYSTEM_NAMESPACE
from components.program import CLUSTER_IDENTIFIER
from reconciler.driver import DriverSettings, FailureReason
from reconciler.driver.errors import (
    BackendFilesError,
    BackendLayoutError,
    CheckpointInvalidError,
    DeploymentInvalidError,
    StateCommandError,
)
from reconciler.driver.state_rules import StateRules
from reconciler.driver.states import States
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KernelError
from reconciler.kernel.kubeconfig import kubeconfig_or_account
from reconciler.kernel.lease import DEFAULT_LEASE, LEASES, LeaderElector, LeasePolicy

_NEXT_STEP = {
    FailureReason.LOCKED: "`dmctl state check` shows whose lock it is, `dmctl state repair` removes those of the dead.",
    FailureReason.STATE_CORRUPT: "`dmctl state repair` starts this state anew; nothing in the cluster is touched.",
    FailureReason.BACKEND_UNREACHABLE: "Check --backend, the network to it, and AWS_* in the environment.",
    FailureReason.WRONG_PASSPHRASE: "Name the file with the passphrase that the reconciler uses: --passphrase-file.",
}
_ANY_NEXT_STEP = "Look at the stack with `dmctl state check`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What was said about backend and cluster.

    Attributes:
        backend: URL of the backend.
        pulumi: The CLI; None to look for it on the path.
        passphrase_file: As the reconciler's.
        kubeconfig: None for the one kubectl would take, or a Pod's account.
        context: None for the current one.
        namespaces: Those that the reconciler looks after; none for all. Stacks of others are not its to judge.
        lease: How long a Lease is waited for.
    """

    backend: str
    pulumi: Path | None = None
    passphrase_file: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    lease: LeasePolicy = DEFAULT_LEASE


@contextmanager
def open_states(access: Access) -> Iterator[States]:
    """Open the backend; scratch files go when it is closed."""
    with TemporaryDirectory(prefix="dmctl-") as scratch:
        settings = DriverSettings(
            pulumi=_pulumi(access.pulumi),
            pulumi_home=Path(scratch) / "home",
            backend_url=access.backend,
            work_directory=Path(scratch) / "work",
            passphrase_file=access.passphrase_file,
            project=PROJECT,
            # Whoever asks may not know with which kubeconfig the reconciler was started, if with any.
            state_rules=StateRules(cluster_identifier=CLUSTER_IDENTIFIER, any_kubeconfig=True),
        )
        yield States(settings)


def _pulumi(given: Path | None) -> Path:
    found = given or shutil.which("pulumi")
    if found is None:
        raise InputError(
            "The Pulumi CLI is not on the path. Name it with --pulumi, or run this in the reconciler's Pod."
        )
    return Path(found)


@asynccontextmanager
async def open_cluster(access: Access) -> AsyncIterator[KubernetesClient]:
    """Open a connection as kubectl would, or with the account of the Pod that this runs in."""
    client = KubernetesClient.connect(
        field_manager="dmctl", kubeconfig=kubeconfig_or_account(access.kubeconfig), context=access.context
    )
    try:
        yield client
    finally:
        await client.close()


async def live_stacks(client: KubernetesClient, namespaces: Sequence[str]) -> frozenset[str]:
    """Return the names of the stacks that the cluster's DecisionModels have, or those in some namespaces.

    Each is asked for by itself: a reconciler that looks after some has no right to list all.
    """
    # Brings the watch cache's half of the product with it, which only those need who ask a cluster.
    from reconciler.controller.watched import DECISION_MODELS  # noqa: PLC0415

    models = [model for namespace in namespaces or (None,) for model in await client.list(DECISION_MODELS, namespace)]
    found = set()
    for model in models:
        metadata = model["metadata"]
        # One that cannot have a stack has none.
        with suppress(InvalidNameError):
            found.add(names.stack(Owner(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])))
    return frozenset(found)


async def leader_host(client: KubernetesClient) -> str | None:
    """Return the host named by the Lease; None when nobody holds it."""
    lease = await client.get(LEASES, SYSTEM_NAMESPACE, LEADER_LEASE) or {}
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return holder.partition("_")[0] or None


@asynccontextmanager
async def sole_writer(
    client: KubernetesClient, policy: LeasePolicy, tell: Callable[[str], None]
) -> AsyncIterator[Callable[[], None]]:
    """Hold the reconciler's Lease, so that no reconciler works meanwhile; one that is alive is never displaced.

    Yields:
        To be called before every write: raises when the Lease was lost.

    Raises:
        InputError: A reconciler holds it.
    """
    identity = f"{socket.gethostname()}_dmctl-{uuid.uuid4()}"
    elector = LeaderElector(client, SYSTEM_NAMESPACE, LEADER_LEASE, identity, policy=policy)
    election = asyncio.create_task(elector.run())
    try:
        if holder := await leader_host(client):
            tell(f"{holder} holds the Lease; waiting {policy.duration:g} s to see whether it is alive")
        # What is not renewed for its duration is taken at the next attempt after that.
        await _first_of(elector, election, policy.duration + 2 * policy.retry)
        if not elector.leading.is_set():
            raise InputError(
                f"{holder or 'A reconciler'} holds the Lease {SYSTEM_NAMESPACE}/{LEADER_LEASE}"
                " and works on this backend.",
                f"Stop it first: kubectl -n {SYSTEM_NAMESPACE} scale deployment"
                " decision-model-operator-controller-manager --replicas=0. What serves goes on serving.",
            )
        yield lambda: _insist(elector)
    finally:
        election.cancel()
        await asyncio.wait([election])
        await elector.release()


async def _first_of(elector: LeaderElector, election: asyncio.Task[None], seconds: float) -> None:
    leading = asyncio.create_task(elector.leading.wait())
    await asyncio.wait([leading, election], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    leading.cancel()


def _insist(elector: LeaderElector) -> None:
    if not elector.leading.is_set():
        raise InputError(
            "The Lease was lost to a reconciler. Stop it, and run the command again: it goes on from here."
        )


@contextmanager
def explained() -> Iterator[None]:
    """Turn what backend and cluster refuse into one message that ends with the next step."""
    try:
        yield
    except StateCommandError as error:
        raise InputError(str(error), _NEXT_STEP.get(error.failure.reason, _ANY_NEXT_STEP)) from error
    except BackendFilesError as error:
        raise InputError(str(error), _NEXT_STEP[FailureReason.BACKEND_UNREACHABLE]) from error
    except BackendLayoutError as error:
        raise InputError(str(error), "Put that right by hand, and find out who wrote it.") from error
    except (CheckpointInvalidError, DeploymentInvalidError) as error:
        raise InputError(str(error), _NEXT_STEP[FailureReason.STATE_CORRUPT]) from error
    except KernelError as error:
        raise InputError(
            str(error), "Name a kubeconfig with --kubeconfig; to look only, --offline asks no cluster."
        ) from error
    except OSError as error:
        raise click.FileError(str(error.filename), error.strerror) from error
