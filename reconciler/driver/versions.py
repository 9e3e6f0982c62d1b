"""The self-check before the first operation: SDK, CLI and provider plugins must be those the driver was written for."""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import PackageNotFoundError, version

from reconciler.driver.bucket_credentials import current_environment
from reconciler.driver.command import cli_environment
from reconciler.driver.errors import IncompatibleToolError
from reconciler.driver.settings import DriverSettings

SUPPORTED_SDK = "3.272.0"
"""The one SDK whose private parts `program_host` was written against."""

MINIMUM_CLI = (3, 256, 0)
"""From here on S3-compatible stores, lock-free previews and the gRPC event stream work (spec pulumi, section 10)."""

_VERSION_SECONDS = 30.0


async def check_tools(settings: DriverSettings) -> None:
    """Raise `IncompatibleToolError` unless all tools fit."""
    check_sdk(_distribution_version("pulumi"))
    for plugin in settings.plugins:
        _check_plugin(settings, plugin)
    check_cli(await _cli_version(settings))


def check_sdk(installed: str) -> None:
    """Raise `IncompatibleToolError` unless `installed` is the supported SDK."""
    if installed != SUPPORTED_SDK:
        raise IncompatibleToolError(
            f"the Pulumi SDK is {installed}, but the driver was written for {SUPPORTED_SDK}: "
            "install the locked version, or review program_host and change SUPPORTED_SDK"
        )


def check_cli(reported: str) -> None:
    """Raise `IncompatibleToolError` unless `pulumi version` reported a CLI of major version 3, recent enough."""
    numbers = _parse(reported)
    if numbers is None or numbers[0] != MINIMUM_CLI[0] or numbers < MINIMUM_CLI:
        wanted = ".".join(map(str, MINIMUM_CLI))
        raise IncompatibleToolError(f"the Pulumi CLI reports version {reported[:40]!r}; use 3.x, at least {wanted}")


def _parse(reported: str) -> tuple[int, ...] | None:
    core = reported.strip().removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    if len(core) != len(MINIMUM_CLI) or not all(part.isdecimal() for part in core):
        return None
    return tuple(int(part) for part in core)


def _check_plugin(settings: DriverSettings, plugin: str) -> None:
    wanted = _distribution_version(f"pulumi-{plugin}")
    directory = settings.pulumi_home / "plugins"
    executable = directory / f"resource-{plugin}-v{wanted}" / f"pulumi-resource-{plugin}"
    if os.access(executable, os.X_OK):
        return
    found = ", ".join(sorted(path.name for path in directory.glob(f"resource-{plugin}-v*"))) or "none"
    raise IncompatibleToolError(
        f"no provider plugin {plugin} {wanted} at {executable} (found: {found}): "
        f"it must have the version of the installed pulumi-{plugin}"
    )


def _distribution_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError as error:
        raise IncompatibleToolError(f"the distribution {distribution} is not installed") from error


async def _cli_version(settings: DriverSettings) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            str(settings.pulumi),
            "version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=cli_environment(settings, current_environment(os.environ), settings.temporary_directory),
            start_new_session=True,
        )
    except OSError as error:
        raise IncompatibleToolError(f"the Pulumi CLI {settings.pulumi} cannot be started: {error}") from error
    try:
        stdout, _ = await asyncio.wait_for(process.communicate(), _VERSION_SECONDS)
    except TimeoutError as error:
        raise IncompatibleToolError(f"the Pulumi CLI {settings.pulumi} does not answer 'version'") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return stdout.decode(errors="replace")
