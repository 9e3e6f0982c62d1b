"""Looking at a state in the backend before the CLI does, and as strictly as `checkpoint` and `state_rules` say."""

from __future__ import annotations

from reconciler.driver import backend_layout as layout
from reconciler.driver.backend_files import BackendFiles
from reconciler.driver.checkpoint import SIZE_LIMIT, parse_checkpoint
from reconciler.driver.errors import CheckpointInvalidError
from reconciler.driver.operation import Failure, FailureReason
from reconciler.driver.settings import DriverSettings
from reconciler.driver.state_rules import tampering

_LAYOUT_LIMIT = 256


def refusal(files: BackendFiles, settings: DriverSettings, stack: str) -> Failure | None:
    """Return why no operation may be run on a state, None when one may, or there is no state yet.

    Raises:
        BackendFilesError: The backend cannot be read.
    """
    if settings.state_rules is None:
        return None
    try:
        problem = found_tampering(files, settings, stack)
    except CheckpointInvalidError as error:
        return Failure(reason=FailureReason.STATE_CORRUPT, message=f"the state cannot be read: {error}")
    if problem is None:
        return None
    message = f"nothing was run, since the stack's state was not written by the reconciler: {problem}"
    return Failure(reason=FailureReason.STATE_TAMPERED, message=f"{message}; see `dmctl state check {stack}`")


def found_tampering(files: BackendFiles, settings: DriverSettings, stack: str) -> str | None:
    """Return what the backend holds of a stack that our own operations do not write, None if there is nothing.

    Raises:
        BackendFilesError: The backend cannot be read.
        CheckpointInvalidError: A state is not one that the CLI would write.
    """
    if settings.state_rules is None:
        return None
    if _is_laid_out_otherwise(files):
        return f"{layout.LAYOUT_FILE} or {layout.STACKS_DIRECTORY} make the engine look for states elsewhere"
    directory = layout.stacks_directory(settings.project)
    foreign = layout.foreign_checkpoint_name(stack)
    if files.find(f"{directory}/{foreign}", 0) is not None:
        return f"{foreign} is there, which no operation of ours writes"
    # Of several the CLI takes the latest, by a clock that is not ours.
    for name in layout.checkpoint_names(stack):
        content = files.find(f"{directory}/{name}", SIZE_LIMIT)
        problem = (
            None
            if content is None
            else tampering(parse_checkpoint(content), settings.project, stack, settings.state_rules)
        )
        if problem is not None:
            return problem
    return None


def _is_laid_out_otherwise(files: BackendFiles) -> bool:
    """Whether the CLI would take another file for the state than the one that is looked at here."""
    content = files.find(layout.LAYOUT_FILE, _LAYOUT_LIMIT)
    if content is not None:
        return content.strip() != layout.LAYOUT
    # A backend without it is new, or of the layout before there were projects.
    return bool(files.names(layout.STACKS_DIRECTORY))
