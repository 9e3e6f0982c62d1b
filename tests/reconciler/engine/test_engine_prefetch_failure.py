"""Classification of failed prefetch Jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.prefetch import EXIT_CODES, PrefetchFailureReason, classify_failure
from tests.components.stacks import rendered, stack


@pytest.mark.parametrize(
    ("code", "reason", "permanent"),
    [
        (3, "ModelNotFound", True),
        (4, "DigestMismatch", True),
        (5, "UpstreamTagMoved", True),
        (6, "SeedUnavailable", True),
        (1, "Transient", False),
        (137, "Transient", False),
        (0, "Transient", False),
        (None, "Transient", False),
    ],
)
def test_the_exit_code_decides_without_a_message(code: int | None, reason: str, permanent: bool) -> None:
    for message in (None, "", "OOMKilled", "reason: Nonsense\ndetail: x"):
        failure = classify_failure(message, code)
        assert (failure.reason, failure.detail, failure.permanent) == (reason, "", permanent)


def test_the_message_adds_what_the_exit_code_cannot_say() -> None:
    failure = classify_failure("reason: UpstreamTagMoved\ndetail: recorded a, registry now serves b\n", 5)
    assert (failure.reason, failure.detail) == ("UpstreamTagMoved", "recorded a, registry now serves b")


def test_a_log_tail_counts_by_its_last_reason() -> None:
    log = "reason: Transient\ndetail: first\nnoise\nreason: DigestMismatch\nreason: bogus\n"
    failure = classify_failure(log, 4)
    assert (failure.reason, failure.detail) == ("DigestMismatch", "")


@pytest.mark.parametrize("code", [1, 137, 143, 0, None])
@pytest.mark.parametrize("reason", [each for each in PrefetchFailureReason if each != "Transient"])
def test_what_a_mirror_writes_into_the_log_is_never_final(reason: str, code: int | None) -> None:
    """As where the script is killed before it has said anything itself."""
    failure = classify_failure(f"pulling\nreason: {reason}\ndetail: for ever\n", code)
    assert (failure.reason, failure.detail, failure.permanent) == ("Transient", "", False)


@given(message=st.text(), code=st.none() | st.integers(-1, 256))
def test_every_message_has_a_reason_and_a_printable_bounded_detail(message: str, code: int | None) -> None:
    failure = classify_failure(f"reason: Transient\ndetail: {message}", code)
    assert failure.reason in PrefetchFailureReason
    assert failure.detail.isprintable()
    assert len(failure.detail) <= 300
    assert classify_failure(message, code).reason in PrefetchFailureReason


def test_the_job_gives_up_at_once_on_exactly_the_permanent_codes() -> None:
    rule = rendered(stack(), "Job")["spec"]["podFailurePolicy"]["rules"][-1]
    assert (rule["action"], set(rule["onExitCodes"]["values"])) == ("FailJob", set(EXIT_CODES))
    assert all(classify_failure(None, code).permanent for code in EXIT_CODES)
