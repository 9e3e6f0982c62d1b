"""One environment: the platform and its models, from the stack's configuration.

`pulumi up --stack <environment>` runs this program; what it declares is decided in `components`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pulumi
from pulumi.runtime import config
from pulumi_kubernetes import Provider

from api.keys import GROUP, KIND, PLATFORM_FIELD_MANAGER, PLURAL, VERSION
from components.configuration import read_configuration
from components.desired import JsonObject
from components.environment import read_models
from components.errors import ComponentsError
from components.platform.component import Environment, Platform
from components.platform.manifests import platform_manifests
from components.platform.readiness import Waiting, wait_until_ready
from policy import PolicyConfigurationError
from policy.enforced import read_enforced
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KernelError
from reconciler.kernel.kubeconfig import kubeconfig_or_account
from reconciler.kernel.resources import Resource

_STACKS = Path(__file__).parent / "stacks"
_DECISION_MODELS = Resource(GROUP, VERSION, PLURAL, KIND)


def declare_environment(project: str, stack: str) -> None:
    """Declare everything the environment `stack` consists of; nothing is declared if any of it is wrong.

    Raises:
        RunError: the configuration or a model cannot be used; the engine shows the message without a traceback.
    """
    try:
        # The SDK offers no listing of all keys besides this; without one a misspelt key would go unnoticed.
        configuration = read_configuration(project, stack, config.get_config_env() | config.CONFIG.get())
        enforced = read_enforced(configuration.policy, _STACKS, stack)
        models = read_models(_STACKS / (configuration.models or stack), configuration.manager.watch_namespaces)
    except (ComponentsError, PolicyConfigurationError) as error:
        raise pulumi.RunError(str(error)) from error

    waits = configuration.wait_for_models.enabled and not pulumi.runtime.is_dry_run()
    if waits:
        _require_answers(models)

    # A stack is one environment on one cluster, for good: another address of it must not replace every object. And a
    # ConfigMap is changed where it is: a dashboard must not vanish for a moment.
    provider = Provider("kubernetes", cluster_identifier=f"{project}-{stack}", enable_config_map_mutable=True)
    options = pulumi.ResourceOptions(provider=provider)
    platform = Platform("platform", platform_manifests(configuration, enforced), configuration.retain, options)
    environment = Environment(
        "models",
        models,
        configuration.retain,
        pulumi.ResourceOptions(provider=provider, depends_on=platform.objects),
    )
    if waits:
        seconds = configuration.wait_for_models.timeout_seconds
        # mypy cannot tell which member of the SDK's union of results a coroutine is.
        environment.applied.apply(lambda _: _wait_for(models, seconds))  # type: ignore[arg-type, return-value]


def _require_answers(models: Sequence[JsonObject]) -> None:
    """See that the models can be waited for, before anything is declared.

    Raises:
        RunError: the cluster cannot be asked about them.
    """
    # A loop runs in this thread already: the engine's, which waits for this program.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_ask_about(models[:1]))).result()


async def _ask_about(models: Sequence[JsonObject]) -> None:
    try:
        async with _connection() as client:
            for namespace, name in _names(models):
                await client.get(_DECISION_MODELS, namespace, name)
    except KernelError as error:
        raise pulumi.RunError(
            f"the models cannot be waited for, so nothing was applied: {error}\nMend what it says, or apply without"
            f" waiting: pulumi config set --path decisionmodel:waitForModels.enabled false"
        ) from error


async def _wait_for(models: Sequence[JsonObject], seconds: float) -> int:
    """Return, once the cluster's reconciler has made every model ready, how many there are.

    Raises:
        RunError: it has not, or the cluster cannot be asked.
    """
    try:
        async with _connection() as client:
            waiting = Waiting(
                read=lambda namespace, name: client.get(_DECISION_MODELS, namespace, name),
                sleep=asyncio.sleep,
                clock=time.monotonic,
                report=pulumi.log.info,
            )
            await wait_until_ready(_names(models), waiting, seconds)
        return len(models)
    except (ComponentsError, KernelError) as error:
        raise pulumi.RunError(str(error)) from error


def _names(models: Sequence[JsonObject]) -> list[tuple[str, str]]:
    return [(model["metadata"]["namespace"], model["metadata"]["name"]) for model in models]


@asynccontextmanager
async def _connection() -> AsyncIterator[KubernetesClient]:
    client = KubernetesClient.connect(field_manager=PLATFORM_FIELD_MANAGER, kubeconfig=kubeconfig_or_account())
    try:
        yield client
    finally:
        await client.close()


if __name__ == "__main__":
    declare_environment(pulumi.get_project(), pulumi.get_stack())
