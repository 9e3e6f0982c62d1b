"""From what one CLI process left behind to a `Failure`: events first, then exit code, then its error output. Pure.

The tables are ordered: the first pattern that matches wins. They hold texts of CLI 3.274, of the kubernetes provider
4.25 and of the API server's own messages, whose wording is part of the API machinery.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reconciler.driver.cli_process import CliRun, Ending
from reconciler.driver.events import Diagnostic, EngineReport, PolicyViolation
from reconciler.driver.operation import Failure, FailureReason
from reconciler.driver.wording import clean_message

EXIT_STACK_NOT_FOUND = 6
_EXIT_CANCELLED = 8

_Table = Sequence[tuple[re.Pattern[str], FailureReason]]


def _row(reason: FailureReason, *patterns: str) -> tuple[re.Pattern[str], FailureReason]:
    return re.compile("|".join(patterns), re.IGNORECASE), reason


_STDERR_TABLE: _Table = (
    _row(FailureReason.LOCKED, r"the stack is currently locked by"),
    _row(FailureReason.WRONG_PASSPHRASE, r"incorrect passphrase"),
    _row(
        FailureReason.BACKEND_UNREACHABLE,
        r"blob \(",
        r"operation error s3",
        r"unable to (open|check).* bucket",
        r"no ?such ?bucket",
        r"read \S*meta\.yaml",
        r"no such file or directory",
        r"permission denied",
        r"no space left on device",
        r"read-only file system",
    ),
    _row(
        FailureReason.STATE_CORRUPT,
        r"snapshot integrity failure",
        r"failed to load checkpoint",
        r"could not deserialize",
        r"unmarshal",
        r"invalid character",
        r"unexpected end of json",
        r"unexpected eof",
        r"gzip: invalid",
    ),
)

_DIAGNOSTIC_TABLE: _Table = (
    _row(
        FailureReason.UNREACHABLE,
        r"cluster is unreachable",
        r"connection refused",
        r"no route to host",
        r"no such host",
        r"i/o timeout",
        r"tls handshake timeout",
        r"connection reset",
        r"unable to load schema information",
        r"service unavailable",
        r"etcdserver:",
        r"context deadline",
        r"the server is currently unable to handle the request",
        r"too many requests",
    ),
    _row(
        FailureReason.API_CONFLICT,
        r"field conflict",
        r"apply failed with \d+ conflict",
        r"already exists",
        r"the object has been modified",
        r"operation cannot be fulfilled",
    ),
    # Before `forbidden` and `timeout`: admission says the one too when it dislikes the content, and the reasons against
    # a field quote both.
    _row(
        FailureReason.INVALID_OBJECT,
        r"admission webhook .* denied the request",
        r"violates podsecurity",
        r"\bis invalid:",
    ),
    _row(
        FailureReason.REFUSED,
        r"is forbidden",
        r"forbidden:",
        r"unauthorized",
        r"must be logged in",
        r"exceeded quota",
        r"being terminated",
        r"namespaces? \"[^\"]*\" not found",
    ),
    _row(
        FailureReason.AWAIT_TIMEOUT,
        r"timed out",
        r"timeout",
        r"resource operation was cancelled",
        r"were not successfully (created|updated)",
        r"failed to become",
    ),
    _row(
        FailureReason.INVALID_OBJECT,
        r"is invalid",
        r"invalid value",
        r"required value",
        r"unsupported value",
        r"field is immutable",
        r"unprocessable",
        r"strict decoding error",
        r"unknown field",
        r"field not declared in schema",
        r"error validating",
        r"cannot be handled as",
        r"no matches for kind",
        r"failed to create typed patch",
        r"bad request",
    ),
    _row(
        FailureReason.PROGRAM_ERROR,
        r"python inline source runtime error",
        r"unhandled (error|exception)",
        r"no resource plugin",
        r"unknown resource type",
        r"duplicate resource urn",
        r"failed to load plugin",
    ),
)

_POLICY_COULD_NOT_RUN = re.compile(r"can't run policy|could not run|policy .* failed to run|analyzer", re.IGNORECASE)
_PENDING_OPERATIONS = re.compile(r"with \d+ pending operations", re.IGNORECASE)
# The engine's own summary lines: true of every failure, so they explain none.
_SUMMARY_ONLY = re.compile(
    r"^\s*(update|preview|destroy|refresh|resource monitor) (failed|canceled)|^BAIL", re.IGNORECASE
)
_CANCELLED = re.compile(r"update canceled|\bcancell?ed\b", re.IGNORECASE)


def classify(run: CliRun, report: EngineReport | None) -> Failure | None:
    """Why the run failed, or None when it did not.

    Args:
        run: The CLI process.
        report: Its event stream; None when the process has none, an empty report when it was lost.
    """
    if run.ending is Ending.DEADLINE:
        return Failure(reason=FailureReason.DEADLINE_EXCEEDED, message="the operation outlived its deadline")
    if run.ending is Ending.STOPPED:
        return Failure(reason=FailureReason.INTERRUPTED, message="the operation was stopped before its end")
    if run.exit_code == 0:
        return None
    return (
        _from_policies(report.violations if report else ())
        or _from_diagnostics(report.diagnostics if report else ())
        or _from_process(run)
    )


def has_pending_operations(report: EngineReport) -> bool:
    """Whether the state still lists operations of an earlier, killed process."""
    return any(_PENDING_OPERATIONS.search(diagnostic.message) for diagnostic in report.diagnostics)


def _from_policies(violations: Iterable[PolicyViolation]) -> Failure | None:
    for violation in violations:
        if _POLICY_COULD_NOT_RUN.search(violation.message):
            return _policy_failure(FailureReason.POLICY_UNKNOWN, violation)
    for violation in violations:
        if violation.enforcement_level == "mandatory":
            return _policy_failure(FailureReason.POLICY_DENIED, violation)
    return None


def _policy_failure(reason: FailureReason, violation: PolicyViolation) -> Failure:
    message = clean_message(f"{violation.policy_name}: {violation.message}")
    return Failure(reason=reason, message=message, urn=violation.resource_urn or None)


def _from_diagnostics(diagnostics: Iterable[Diagnostic]) -> Failure | None:
    failures = [_diagnostic_failure(found) for found in diagnostics if _explains(found)]
    known = [failure for failure in failures if failure.reason is not FailureReason.UNKNOWN]
    return next(iter([*known, *failures]), None)


def _explains(diagnostic: Diagnostic) -> bool:
    if diagnostic.severity != "error" or _SUMMARY_ONLY.match(diagnostic.message):
        return False
    return bool(clean_message(diagnostic.message))


def _diagnostic_failure(diagnostic: Diagnostic) -> Failure:
    if _CANCELLED.search(diagnostic.message) and not diagnostic.urn:
        reason = FailureReason.INTERRUPTED
    else:
        reason = _look_up(_DIAGNOSTIC_TABLE, diagnostic.message)
    return Failure(reason=reason, message=clean_message(diagnostic.message), urn=diagnostic.urn or None)


def _from_process(run: CliRun) -> Failure:
    text = run.stderr if run.stderr.strip() else run.stdout
    message = clean_message(text) or f"the Pulumi CLI ended with code {run.exit_code} and said nothing"
    if run.exit_code < 0 or run.exit_code == _EXIT_CANCELLED:
        return Failure(reason=FailureReason.INTERRUPTED, message=message)
    reason = _look_up(_STDERR_TABLE, text)
    if reason is FailureReason.UNKNOWN:
        reason = _look_up(_DIAGNOSTIC_TABLE, text)
    return Failure(reason=reason, message=message)


def _look_up(table: _Table, text: str) -> FailureReason:
    return next((reason for pattern, reason in table if pattern.search(text)), FailureReason.UNKNOWN)
