"""Looking at a state in the backend before the CLI does, and as strictly as `checkpoint` and `state_rules` say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.driver import backend_layout as layout
from reconciler.driver.backend_files import BackendFiles
from reconciler.driver.checkpoint import SIZE_LIMIT, parse_checkpoint
from reconciler.driver.deployment import Deployment
from reconciler.driver.errors import BackendLayoutError, CheckpointInvalidError
from reconciler.driver.operation import Failure, FailureReason
from reconciler.driver.settings import DriverSettings
from reconciler.driver.state_rules import StateRules, tampering

_LAYOUT_LIMIT = 256


def refusal(files: BackendFiles, settings: DriverSettings, stack: str) -> Failure | None:
    """Return why no operation may be run on a state, None when one may, or there is no state yet.

    Raises:
        BackendFilesError: The backend cannot be read.
    """
    if settings.state_rules is None:
        return None
    try:
        problem = found_tampering(files, settings.project, stack, settings.state_rules)
    except BackendLayoutError as error:
        return _tampered(stack, str(error))
    except CheckpointInvalidError as error:
        return Failure(reason=FailureReason.STATE_CORRUPT, message=f"the state cannot be read: {error}")
    return None if problem is None else _tampered(stack, problem)


def _tampered(stack: str, problem: str) -> Failure:
    message = (
        f"nothing was run, since the stack's state was not written by the reconciler: {problem};"
        f" see `dmctl state check {stack}`"
    )
    return Failure(reason=FailureReason.STATE_TAMPERED, message=message)


def found_tampering(files: BackendFiles, project: str, stack: str, rules: StateRules) -> str | None:
    """Return what the backend holds of a stack that our own operations do not write, None if there is nothing.

    Raises:
        BackendFilesError: The backend cannot be read.
        BackendLayoutError: The CLI would take another file for the state.
        CheckpointInvalidError: A state is not one that the CLI would write.
    """
    insist_on_layout(files)
    foreign = layout.foreign_checkpoint_name(stack)
    if files.find(f"{layout.stacks_directory(project)}/{foreign}", 0) is not None:
        return f"{foreign} is there, which no operation of ours writes"
    # Of several the CLI takes the latest, by a clock that is not ours.
    found = (tampering(document, project, stack, rules) for document in checkpoints(files, project, stack))
    return next((problem for problem in found if problem is not None), None)


def checkpoints(files: BackendFiles, project: str, stack: str) -> Iterator[Mapping[str, Any]]:
    """Yield what the files say that may be a stack's state: one, unless somebody has put another beside it.

    Raises:
        BackendFilesError: The backend cannot be read.
        CheckpointInvalidError: A state is not one that the CLI would write.
    """
    for name in layout.checkpoint_names(stack):
        content = files.find(f"{layout.stacks_directory(project)}/{name}", SIZE_LIMIT)
        if content is not None:
            yield parse_checkpoint(content)


def exported_tampering(deployment: Deployment, project: str, stack: str, rules: StateRules) -> str | None:
    """Return what an exported state records that our own operations do not write, None if there is nothing."""
    latest = deployment.document["deployment"]
    checkpoint = {"stack": f"organization/{project}/{stack}", "latest": latest}
    return tampering({"version": 3, "checkpoint": checkpoint}, project, stack, rules)


def insist_on_layout(files: BackendFiles) -> None:
    """Make sure that the CLI takes the files for the states that are looked at here.

    Raises:
        BackendFilesError: The backend cannot be read.
        BackendLayoutError: It does not.
    """
    content = files.find(layout.LAYOUT_FILE, _LAYOUT_LIMIT)
    # A backend without it is new, or of the layout before there were projects.
    is_ours = content.strip() == layout.LAYOUT if content is not None else not files.names(layout.STACKS_DIRECTORY)
    if not is_ours:
        raise BackendLayoutError(
            f"{layout.LAYOUT_FILE} has to say `{layout.LAYOUT.decode()}`, and no file may be right in"
            f" {layout.STACKS_DIRECTORY}: else the engine looks for states elsewhere"
        )
