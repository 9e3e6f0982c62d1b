"""One environment: the platform and its models, from the stack's configuration.

`pulumi up --stack <environment>` runs this program; what it declares is decided in `components`.
"""

from pathlib import Path

import pulumi
from pulumi.runtime import config
from pulumi_kubernetes import Provider

from components.configuration import read_configuration
from components.environment import read_models
from components.errors import ComponentsError
from components.platform import Environment, Platform
from components.platform_manifests import platform_manifests

_STACKS = Path(__file__).parent / "stacks"


def declare_environment(project: str, stack: str) -> None:
    """Declare everything the environment `stack` consists of; nothing is declared if any of it is wrong.

    Raises:
        RunError: the configuration or a model cannot be used; the engine shows the message without a traceback.
    """
    try:
        # The SDK offers no listing of all keys besides this; without one a misspelt key would go unnoticed.
        configuration = read_configuration(project, config.get_config_env() | config.CONFIG.get())
        models = read_models(_STACKS / (configuration.models or stack))
    except ComponentsError as error:
        raise pulumi.RunError(str(error)) from error

    # A stack is one environment on one cluster, for good: another address of it must not replace every object.
    provider = Provider("kubernetes", cluster_identifier=f"{project}-{stack}")
    platform = Platform("platform", platform_manifests(configuration), pulumi.ResourceOptions(provider=provider))
    Environment("models", models, pulumi.ResourceOptions(provider=provider, depends_on=platform.objects))


if __name__ == "__main__":
    declare_environment(pulumi.get_project(), pulumi.get_stack())
