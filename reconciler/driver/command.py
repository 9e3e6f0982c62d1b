"""Command lines and environments for the Pulumi CLI. Pure; kept apart so that tests can pin every argument.

The hidden flags (`--client`, `--exec-kind`, `--event-log`) need `PULUMI_DEBUG_COMMANDS`. Never used, on purpose:
targets, excludes, `--continue-on-error`, `--force` on anything but the removal of a stack (spec pulumi, section 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from reconciler.driver.backend_files import url_for_cli
from reconciler.driver.operation import OperationKind
from reconciler.driver.settings import DriverSettings

_APPLY = ("--yes", "--skip-preview")

_KIND_ARGUMENTS: Mapping[OperationKind, tuple[str, ...]] = {
    OperationKind.UP: ("up", *_APPLY),
    OperationKind.REFRESH_UP: ("up", *_APPLY, "--refresh"),
    OperationKind.PREVIEW: ("preview",),
    OperationKind.DESTROY: ("destroy", *_APPLY),
}

_DISPLAY_ARGUMENTS = ("--skip-plugin-pre-install", "--suppress-progress", "--suppress-outputs")

LOG_MEGABYTES = 32
"""Cap on `$PULUMI_HOME/logs`; the CLI itself deletes the oldest files beyond it and files older than a day."""


def operation_arguments(kind: OperationKind, stack: str, host_address: str) -> list[str]:
    """The one CLI process of an operation other than `REMOVE`.

    Args:
        kind: What to do.
        stack: On which stack.
        host_address: `host:port` where a worker serves program and event stream.
    """
    return [*_KIND_ARGUMENTS[kind], *_engine_arguments(stack, host_address)]


def clear_pending_creates_arguments(stack: str, host_address: str) -> list[str]:
    """Drop creations that a kill left open in the state, reading what exists from the cluster."""
    return ["refresh", *_APPLY, "--clear-pending-creates", *_engine_arguments(stack, host_address)]


def _engine_arguments(stack: str, host_address: str) -> list[str]:
    return [
        *_DISPLAY_ARGUMENTS,
        "--stack",
        stack,
        # With a client the engine starts no language host of its own, of which there is none here.
        f"--client={host_address}",
        "--exec-kind",
        "auto.inline",
        "--event-log",
        f"tcp://{host_address}",
    ]


def create_stack_arguments(stack: str) -> list[str]:
    """Make an empty stack, without selecting it: the selection is a file that concurrent processes share."""
    return ["stack", "init", "--no-select", "--stack", stack]


def remove_stack_arguments(stack: str) -> list[str]:
    """Forget a stack, even one that still lists resources."""
    return ["stack", "rm", "--yes", "--force", "--stack", stack]


def cancel_arguments(stack: str) -> list[str]:
    """Delete all locks of a stack; stops nobody, so only after the owners are known dead."""
    return ["cancel", "--yes", "--stack", stack]


def export_arguments(stack: str, file: Path) -> list[str]:
    """Write a stack's state to a file."""
    return ["stack", "export", "--stack", stack, "--file", str(file)]


def import_arguments(stack: str, file: Path) -> list[str]:
    """Take a stack's state from a file, without what is pending in it."""
    return ["stack", "import", "--stack", stack, "--file", str(file)]


def list_stacks_arguments() -> list[str]:
    """List the project's stacks as JSON."""
    return ["stack", "ls", "--json"]


def command_line(settings: DriverSettings, arguments: list[str]) -> list[str]:
    """Complete argv of a CLI process."""
    return [str(settings.pulumi), "--non-interactive", "--color", "never", *arguments]


def cli_environment(settings: DriverSettings, ambient: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """Environment of a CLI process, which its provider inherits.

    Args:
        settings: The driver's.
        ambient: This process's environment, of which only what is named in `_INHERITED` is passed on, and what opens a
            bucket where the states are in one.
        temporary: The operation's own TMPDIR.
    """
    in_bucket = urlsplit(settings.backend_url).scheme == "s3"
    return {
        **_inherited(ambient, prefixes=_BUCKET_PREFIXES if in_bucket else ()),
        # The lock records the user's name, and a uid without a passwd entry has none but this.
        "USER": ambient.get("USER") or settings.project,
        "TMPDIR": str(temporary),
        "PULUMI_HOME": str(settings.pulumi_home),
        "PULUMI_BACKEND_URL": url_for_cli(settings.backend_url),
        **_passphrase(settings.passphrase_file),
        **_ENGINE_ENVIRONMENT,
    }


def worker_environment(ambient: Mapping[str, str], import_path: list[str]) -> dict[str, str]:
    """Environment of a worker process: same import path as ours, and nothing that opens a bucket."""
    return {
        **_inherited(ambient),
        "PYTHONPATH": ":".join(entry for entry in import_path if entry),
        "PULUMI_ERROR_OUTPUT_STRING": "true",
    }


_INHERITED = frozenset(
    {
        *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TZ"),
        *("SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        # By these the provider finds the API server from within a Pod.
        *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    }
)
_BUCKET_PREFIXES = ("AWS_",)


def _inherited(ambient: Mapping[str, str], *, prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    # PULUMI_K8S_*, KUBECONFIG and the like change what the provider does, and what else this process knows is none of
    # the engine's business: it would be at hand for whatever a state makes the engine run.
    return {name: value for name, value in ambient.items() if name in _INHERITED or name.startswith(prefixes)}


def _passphrase(file: Path | None) -> dict[str, str]:
    if file is None:
        return {"PULUMI_CONFIG_PASSPHRASE": ""}
    return {"PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}


_ENGINE_ENVIRONMENT: Mapping[str, str] = {
    "PULUMI_AUTOMATION_API": "true",
    "PULUMI_DEBUG_COMMANDS": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    # A missing or other plugin version must fail at once, not download or take what lies on PATH.
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
    # The work directory may be lost; the salt is then taken from the state instead of being made anew.
    "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
    "PULUMI_DIY_BACKEND_GZIP": "true",
    "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "true",
    # CLI and provider live about a second: collecting garbage less often saves a sixth of their CPU for 20 MiB.
    "GOGC": "400",
    "PULUMI_LOG_ROTATION_MAX_AGE_DAYS": "1",
    "PULUMI_LOG_ROTATION_MAX_TOTAL_MB": str(LOG_MEGABYTES),
}
