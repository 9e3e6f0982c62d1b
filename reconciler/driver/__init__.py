"""The Pulumi Automation API under a reconcile loop: one operation in, one outcome out.

The controller hands over an `Operation` (what to do to which stack, by when) and gets an `Outcome` back, never an
exception for anything that the engine, the cluster or the backend did. `StackDriver` is the whole interface; the
other modules are its parts:

* `operation`, `settings`, `errors`: the values that cross the boundary;
* `events`, `classification`, `recovery`, `command`, `backend_layout`: decisions, pure;
* `program_host`: the only module that touches private parts of the Pulumi SDK; runs inside `worker` processes;
* `worker_process`, `worker_pool`, `cli_process`, `backend_files`, `bucket_files`, `housekeeping`, `execution` and
  `driver`: the shell around them.
"""

from reconciler.driver.driver import StackDriver
from reconciler.driver.errors import (
    BackendQueryError,
    DriverClosedError,
    DriverError,
    IncompatibleToolError,
    UnpicklableProgramError,
)
from reconciler.driver.operation import (
    Failure,
    FailureReason,
    Operation,
    OperationKind,
    Outcome,
    ResourceChange,
)
from reconciler.driver.settings import DriverSettings

__all__ = [
    "BackendQueryError",
    "DriverClosedError",
    "DriverError",
    "DriverSettings",
    "Failure",
    "FailureReason",
    "IncompatibleToolError",
    "Operation",
    "OperationKind",
    "Outcome",
    "ResourceChange",
    "StackDriver",
    "UnpicklableProgramError",
]
