"""Exceptions of the driver: for mistakes of whoever set it up or called it. What an operation runs into is a
`Failure` in its outcome, not an exception.
"""  # noqa: D205 -- the summary needs its two lines

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.driver.operation import Failure


class DriverError(Exception):
    """Base of everything the driver raises."""


class IncompatibleToolError(DriverError):
    """The Pulumi SDK, CLI or a provider plugin is missing or not the version this driver was written for."""


class UnpicklableProgramError(DriverError):
    """An operation's program cannot be sent to a worker process."""


class DriverClosedError(DriverError):
    """The driver was not started, or is closed."""


class WorkerLostError(DriverError):
    """A worker process did not start, did not answer, or died. Internal: operations report it as `Interrupted`."""


class BackendFilesError(DriverError):
    """Files of the state backend could not be listed, read or deleted."""


class DeploymentInvalidError(DriverError):
    """An exported state cannot be read, or contradicts itself."""


class BackendLayoutError(DriverError):
    """The CLI would take other files for the states than those that the driver looks at."""


class CheckpointInvalidError(DriverError):
    """The file of a state cannot be read, or could be read in two ways."""


class StateCommandError(DriverError):
    """The CLI could not read or change a state.

    Attributes:
        failure: The classified cause.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


class BackendQueryError(DriverError):
    """The backend's list of stacks could not be read.

    Attributes:
        failure: The classified cause.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"cannot list the stacks: {failure.reason}: {failure.message}")
        self.failure = failure
