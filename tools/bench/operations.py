"""Stack operations through the driver, and by the bare CLI with the same program on the same cluster."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from components.desired import DesiredRevision, DesiredStack, Owner, Placement, Prefetch, Serving, Store
from components.program import ProviderSettings, converge
from reconciler.driver import DriverSettings, Operation, OperationKind, StackDriver
from tools import toolchain
from tools.bench.cleaning import fresh_namespace, remove_model
from tools.bench.figures import Comparison
from tools.bench.rollouts import decision_model
from tools.deploy import ROOT, run_pulumi
from tools.environment import Environment, Progress
from tools.kubectl import Kubectl, wait_until

NAMESPACE = "bench-operations"
OPERATIONS = ("create the stack and 8 objects", "change nothing", "switch the Service's selector")

_SYSTEM = "decision-model-operator-system"
_OPERATOR = "deployment/decision-model-operator-controller-manager"
_DEADLINE_SECONDS = 120.0
_OLD, _NEW = "0" * 16, "1" * 16


class OperationFailedError(Exception):
    """A measured operation failed; the message is what the engine said."""


@dataclass(frozen=True, slots=True)
class BareCli:
    """The CLI as a person runs it, in a directory of its own, with a program on disk."""

    kubeconfig: Path
    home: Path
    directory: Path

    def prepare(self) -> None:
        """Write the project."""
        (self.directory / "state").mkdir(parents=True)
        project = {"name": "decisionmodel", "runtime": "python", "main": str(Path(__file__).with_name("cli_program"))}
        (self.directory / "Pulumi.yaml").write_text(yaml.safe_dump(project), encoding="utf-8")

    def create(self, desired: DesiredStack) -> None:
        """Make the stack and everything in it."""
        self._pulumi("stack", "init", "--no-select", f"--stack={desired.owner.name}")
        self.up(desired)

    def up(self, desired: DesiredStack) -> None:
        """Converge.

        Raises:
            DeployError: The CLI failed.
        """
        program = partial(converge, desired, _provider(self.kubeconfig))
        (self.directory / "program.pickle").write_bytes(pickle.dumps(program))
        self._pulumi("up", f"--stack={desired.owner.name}", "--yes", "--skip-preview", "--suppress-outputs")

    def _pulumi(self, *arguments: str) -> None:
        run_pulumi(self.directory, self._environment(), *arguments, timeout=_DEADLINE_SECONDS)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{ROOT / 'tools' / 'language_host'}{os.pathsep}{os.environ['PATH']}",
            "BENCH_PROGRAM": str(self.directory / "program.pickle"),
            "PULUMI_HOME": str(self.home),
            "PULUMI_BACKEND_URL": f"file://{self.directory / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }


@dataclass(frozen=True, slots=True)
class Ours:
    """The driver as the reconciler uses it, its workers warm."""

    driver: StackDriver
    kubeconfig: Path

    async def up(self, desired: DesiredStack) -> None:
        """Converge.

        Raises:
            OperationFailedError: It failed.
        """
        operation = Operation(
            kind=OperationKind.UP,
            stack=desired.owner.name,
            program=partial(converge, desired, _provider(self.kubeconfig)),
            deadline_seconds=_DEADLINE_SECONDS,
        )
        outcome = await self.driver.run(operation)
        if outcome.failure is not None:
            raise OperationFailedError(f"{outcome.failure.reason}: {outcome.failure.message}")


def measure(environment: Environment, rounds: int, progress: Progress) -> tuple[Comparison, ...]:
    """Do every operation `rounds` times in each way, alternating which comes first.

    Raises:
        DriverError: The driver does not start.
        DeployError, OperationFailedError: An operation failed.
        KubectlError, WaitError: The cluster refused something, or objects do not go.
    """
    directory = environment.cluster.kubeconfig.parent / "operations"
    shutil.rmtree(directory, ignore_errors=True)
    home = directory / "home"
    toolchain.prepare_pulumi_home(home)
    (directory / "driver-state").mkdir()
    bare = BareCli(environment.cluster.kubeconfig, home, directory / "cli")
    bare.prepare()
    settings = DriverSettings(
        pulumi=toolchain.program_path("pulumi"),
        pulumi_home=home,
        backend_url=f"file://{directory / 'driver-state'}",
        work_directory=directory / "driver-work",
        workers=1,
        preload=("components.declaration",),
    )
    fresh_namespace(environment.kubectl, NAMESPACE)
    with _reconciler_away(environment.kubectl):
        return asyncio.run(_measure(environment, settings, bare, rounds, progress))


async def _measure(
    environment: Environment, settings: DriverSettings, bare: BareCli, rounds: int, progress: Progress
) -> tuple[Comparison, ...]:
    driver = StackDriver(settings)
    await driver.start()
    ours = Ours(driver, environment.cluster.kubeconfig)
    seconds: dict[tuple[str, str], list[float]] = {}
    try:
        # The first round warms the caches of disk, API server and provider, and does not count.
        for number in range(rounds + 1):
            for way in ("driver", "bare CLI") if number % 2 else ("bare CLI", "driver"):
                took = await _one_life(environment.kubectl, ours if way == "driver" else bare, f"{way[0]}{number}")
                progress(f"operations {number}, {way}: {', '.join(f'{each:.2f} s' for each in took)}")
                for operation, each in zip(OPERATIONS, took, strict=True):
                    seconds.setdefault((operation, way), []).append(each)
    finally:
        await driver.close(grace_seconds=0)
    return tuple(
        Comparison(
            title=operation,
            ours=("driver", tuple(seconds[operation, "driver"][1:])),
            theirs=("bare CLI", tuple(seconds[operation, "bare CLI"][1:])),
        )
        for operation in OPERATIONS
    )


async def _one_life(kubectl: Kubectl, way: Ours | BareCli, name: str) -> tuple[float, ...]:
    """Create a stack, converge it unchanged, switch its selector; return the seconds of each."""
    desired = _desired(_owner(kubectl, name))
    switched = replace(desired, selected=_NEW)
    took = (
        await _timed(way, desired, is_new=True),
        await _timed(way, desired, is_new=False),
        await _timed(way, switched, is_new=False),
    )
    remove_model(kubectl, NAMESPACE, name)
    return took


async def _timed(way: Ours | BareCli, desired: DesiredStack, *, is_new: bool) -> float:
    started = time.monotonic()
    if isinstance(way, Ours):
        await way.up(desired)
    elif is_new:
        way.create(desired)
    else:
        way.up(desired)
    return time.monotonic() - started


def _owner(kubectl: Kubectl, name: str) -> Owner:
    """Create the DecisionModel that owns the objects; without a real owner the garbage collector would take them."""
    kubectl.apply(decision_model(name, NAMESPACE))
    created: Any = kubectl.get("decisionmodel", name, NAMESPACE)
    return Owner(namespace=NAMESPACE, name=name, uid=created["metadata"]["uid"])


def _desired(owner: Owner) -> DesiredStack:
    """Return two revisions whose objects cost the cluster next to nothing: no Pod of theirs can run."""
    nowhere = Placement(node_selector={"decisionmodel.io/bench": "nowhere"})
    prefetch = Prefetch(image="none", script="true", environment=(), deadline_seconds=600, placement=nowhere)
    serving = Serving(image="none", environment=(), replicas=0, device="cpu")
    old = DesiredRevision(
        hash=_OLD, store=Store(size="1Mi"), prefetch=prefetch, serving=serving, disruption_budget=True
    )
    return DesiredStack(owner=owner, revisions=(old, replace(old, hash=_NEW, disruption_budget=False)), selected=_OLD)


def _provider(kubeconfig: Path) -> ProviderSettings:
    return ProviderSettings(kubeconfig=str(kubeconfig), cluster_identifier="bench")


@contextmanager
def _reconciler_away(kubectl: Kubectl) -> Iterator[None]:
    """Stop the reconciler in the cluster meanwhile: it would take care of these DecisionModels itself."""
    kubectl.run("scale", _OPERATOR, "-n", _SYSTEM, "--replicas=0")
    try:
        wait_until("the reconciler to end", lambda: not kubectl.list("pods", _SYSTEM), 90, every=0.5)
        yield
    finally:
        kubectl.run("scale", _OPERATOR, "-n", _SYSTEM, "--replicas=1")
