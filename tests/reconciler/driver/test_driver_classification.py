"""Errors as a closed set: texts that CLI, provider and API server really produce, and what becomes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.driver import FailureReason
from reconciler.driver.classification import classify
from reconciler.driver.cli_process import CliRun, Ending
from reconciler.driver.events import Diagnostic, EngineReport, PolicyViolation
from reconciler.driver.wording import MAX_MESSAGE_CHARACTERS, clean_message

URN = "urn:pulumi:s::decisionmodel::kubernetes:apps/v1:Deployment::fraud"


def ended(exit_code: int = 255, stderr: str = "", ending: Ending = Ending.EXITED) -> CliRun:
    return CliRun(ending=ending, exit_code=exit_code, stdout="", stderr=stderr)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            (
                "Server-Side Apply field conflict detected. See https://www.pulumi.com/registry/… for troubleshooting "
                'help: Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .spec.selector'
            ),
            FailureReason.API_CONFLICT,
        ),
        (
            (
                'Retry #0; creation failed: Job.batch "fetch" is invalid: spec.template: Invalid '
                "value: core.PodTemplate"
                "Spec{}: field is immutable"
            ),
            FailureReason.INVALID_OBJECT,
        ),
        (
            (
                'PersistentVolumeClaim "fraud" is invalid: spec: Forbidden: spec is immutable after creation except '
                "resources.requests and volumeAttributesClassName for bound claims"
            ),
            FailureReason.INVALID_OBJECT,
        ),
        (
            (
                'Deployment.apps "fraud" is invalid: spec.strategy.rollingUpdate: Forbidden: may not be specified when '
                "strategy `type` is 'Recreate'"
            ),
            FailureReason.INVALID_OBJECT,
        ),
        (
            (
                'Deployment.apps "fraud" is invalid: spec.template.spec.containers[0].livenessProbe.timeoutSeconds: '
                "Invalid value: 0: must be greater than 0"
            ),
            FailureReason.INVALID_OBJECT,
        ),
        ('resource fraud was not successfully created: services "fraud" already exists', FailureReason.API_CONFLICT),
        ('admission webhook "deny.example.com" denied the request: no', FailureReason.INVALID_OBJECT),
        (
            'pods "fraud" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
            FailureReason.INVALID_OBJECT,
        ),
        (
            'persistentvolumeclaims is forbidden: User "system:serviceaccount:dm:reconciler" cannot list resource',
            FailureReason.REFUSED,
        ),
        ('pods "fraud" is forbidden: exceeded quota: compute', FailureReason.REFUSED),
        (
            (
                'services "fraud" is forbidden: unable to create new content in namespace shop because '
                "it is being terminated"
            ),
            FailureReason.REFUSED,
        ),
        ('namespaces "shop" not found', FailureReason.REFUSED),
        (
            (
                "configured Kubernetes cluster is unreachable: unable to load schema information from the API server: "
                'Get "https://10.96.0.1:443/openapi/v2?timeout=32s": dial tcp 10.96.0.1:443: '
                "connect: connection refused"
            ),
            FailureReason.UNREACHABLE,
        ),
        (
            (
                'the Kubernetes API server reported that "shop/fraud" failed to fully initialize or '
                "become live: timed out"
                " waiting for the condition"
            ),
            FailureReason.AWAIT_TIMEOUT,
        ),
        (
            "python inline source runtime error: boom\nTraceback (most recent call last):\n  x",
            FailureReason.PROGRAM_ERROR,
        ),
        ("no resource plugin 'kubernetes-v4.25.0' found in the workspace", FailureReason.PROGRAM_ERROR),
        ("something nobody has seen before", FailureReason.UNKNOWN),
    ],
)
def test_a_diagnostic_with_a_urn(message: str, reason: FailureReason) -> None:
    failure = classify(ended(), EngineReport(diagnostics=(Diagnostic("error", message, URN),)))
    assert failure is not None
    assert (failure.reason, failure.urn) == (reason, URN)


@pytest.mark.parametrize(
    ("stderr", "exit_code", "reason"),
    [
        ("error: the stack is currently locked by 1 lock(s). Either wait", 255, FailureReason.LOCKED),
        ("error: getting secrets manager: incorrect passphrase", 255, FailureReason.WRONG_PASSPHRASE),
        (
            (
                'error: failed to load checkpoint: blob (key ".pulumi/stacks/p/s.json") '
                "(code=Unknown): operation error "
                "S3: GetObject, exceeded maximum number of attempts, 3"
            ),
            255,
            FailureReason.BACKEND_UNREACHABLE,
        ),
        (
            "error: unable to check if bucket file:///state is accessible: no such file or directory",
            255,
            FailureReason.BACKEND_UNREACHABLE,
        ),
        ("error: snapshot integrity failure; refusing to use it: duplicate", 255, FailureReason.STATE_CORRUPT),
        ("error: failed to load checkpoint: unexpected end of JSON input", 255, FailureReason.STATE_CORRUPT),
        ("error: update canceled", 8, FailureReason.INTERRUPTED),
        ("", -9, FailureReason.INTERRUPTED),
        ("", 255, FailureReason.UNKNOWN),
    ],
)
def test_what_only_the_process_tells(stderr: str, exit_code: int, reason: FailureReason) -> None:
    failure = classify(ended(exit_code, stderr), EngineReport())
    assert failure is not None
    assert failure.reason is reason
    assert failure.message


def test_events_come_before_the_error_output() -> None:
    report = EngineReport(
        diagnostics=(Diagnostic("error", "field conflict", URN), Diagnostic("error", "update failed"))
    )
    failure = classify(ended(stderr="error: update failed; connection refused"), report)
    assert failure is not None
    assert failure.reason is FailureReason.API_CONFLICT


def test_the_first_error_that_says_something_wins() -> None:
    unclear = Diagnostic("error", "resource partially created", URN)
    clear = Diagnostic("error", 'Deployment "fraud" is invalid: spec.replicas: Invalid value: -1', URN)
    failure = classify(ended(), EngineReport(diagnostics=(unclear, clear)))
    assert failure is not None
    assert failure.message.startswith("Deployment")


def test_a_warning_fails_nothing() -> None:
    report = EngineReport(diagnostics=(Diagnostic("warning", "field conflict", URN),))
    failure = classify(ended(), report)
    assert failure is not None
    assert failure.reason is FailureReason.UNKNOWN


@pytest.mark.parametrize(
    ("message", "level", "reason"),
    [
        ("limits are missing", "mandatory", FailureReason.POLICY_DENIED),
        ("can't run policy 'limits' during preview: unknown value", "advisory", FailureReason.POLICY_UNKNOWN),
    ],
)
def test_policies(message: str, level: str, reason: FailureReason) -> None:
    violation = PolicyViolation(message, "limits", level, URN)
    failure = classify(ended(), EngineReport(violations=(violation,)))
    assert failure is not None
    assert (failure.reason, failure.urn) == (reason, URN)
    assert "limits" in failure.message


def test_an_advisory_policy_fails_nothing() -> None:
    assert classify(ended(0), EngineReport(violations=(PolicyViolation("hm", "limits", "advisory", URN),))) is None


def test_success_is_none_even_with_noise() -> None:
    assert classify(ended(0, stderr="warning: something failed: connection refused"), EngineReport()) is None


@pytest.mark.parametrize(
    ("ending", "reason"),
    [(Ending.DEADLINE, FailureReason.DEADLINE_EXCEEDED), (Ending.STOPPED, FailureReason.INTERRUPTED)],
)
def test_an_enforced_end_outranks_all_else(ending: Ending, reason: FailureReason) -> None:
    failure = classify(ended(0, ending=ending), EngineReport(changes={"create": 1}))
    assert failure is not None
    assert failure.reason is reason


def test_every_reason_says_whether_to_retry() -> None:
    permanent = {reason for reason in FailureReason if not reason.retryable}
    assert permanent == {
        FailureReason.POLICY_DENIED,
        FailureReason.POLICY_UNKNOWN,
        FailureReason.INVALID_OBJECT,
        FailureReason.STATE_CORRUPT,
        FailureReason.STATE_TAMPERED,
        FailureReason.WRONG_PASSPHRASE,
        FailureReason.PROGRAM_ERROR,
    }


def test_hints_colours_and_tracebacks_are_cut_and_the_servers_words_kept() -> None:
    raw = (
        '\x1b[31merror: \x1b[0mRetry #0; Deployment.apps "fraud" is invalid: spec.replicas: Invalid value: -1\n'
        "    Would you like help with these diagnostics?\n"
        "    https://app.pulumi.com/neo?prompt=x\n"
        "Traceback (most recent call last):\n  File x\n"
    )
    assert clean_message(raw) == 'Deployment.apps "fraud" is invalid: spec.replicas: Invalid value: -1'


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2hunter2",
        "dial postgres://user:hunter2hunter2@host/db",
        'config {"password": "hunter2hunter2"}',
        "AWS_SECRET_ACCESS_KEY=hunter2hunter2",
    ],
)
def test_credentials_are_masked(text: str) -> None:
    assert "hunter2" not in clean_message(text)


@given(st.text())
def test_any_text_becomes_one_bounded_line(text: str) -> None:
    cleaned = clean_message(text * 40)
    assert len(cleaned) <= MAX_MESSAGE_CHARACTERS
    assert "\n" not in cleaned
    assert "\x1b" not in cleaned


@given(st.text(), st.text(), st.integers(-64, 255), st.booleans())
def test_any_failure_has_a_reason_and_a_message(message: str, stderr: str, code: int, with_report: bool) -> None:
    report = EngineReport(diagnostics=(Diagnostic("error", message),)) if with_report else None
    failure = classify(ended(code, stderr), report)
    if code == 0:
        assert failure is None
        return
    assert failure is not None
    assert failure.message
