"""The readiness gate's decisions."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.errors import MalformedAnswer, RuntimeRejected, RuntimeUnauthorized, RuntimeUnreachable
from reconciler.engine.gate import (
    ExpectedModel,
    GateReason,
    Inspection,
    LoadedModel,
    ProbeMemory,
    after_inspection,
    judge,
    needs_warm_up,
)

DIGEST, OTHER = "c3" * 32, "d4" * 32
EXPECTED = ExpectedModel(name="Library/Laya:EN", digest=DIGEST, device="cpu")
LOADED = LoadedModel(name="laya:en", digest=DIGEST, device="cpu", pinned=True, precision="F32")
ERRORS = [
    RuntimeUnreachable("down"),
    RuntimeUnauthorized("401"),
    RuntimeRejected("500", status=500),
    MalformedAnswer("html"),
]
T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def test_the_expected_model_opens_the_gate() -> None:
    verdict = judge((replace(LOADED, name="nli:latest", digest=OTHER), LOADED), EXPECTED)
    assert (verdict.ready, verdict.reason, verdict.precision) == (True, "ModelReady", "F32")


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_reported_as_it_is(error: Inspection) -> None:
    verdict = judge(error, EXPECTED)
    assert (verdict.ready, verdict.reason, verdict.message) == (False, "ProbeError", str(error))


def test_a_model_that_is_not_loaded_is_a_probe_error() -> None:
    verdict = judge((replace(LOADED, name="laya:multilingual"),), EXPECTED)
    assert (verdict.ready, verdict.reason) == (False, "ProbeError")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (replace(LOADED, digest=OTHER, device="cuda:0", pinned=False), "DigestMismatch"),
        (replace(LOADED, digest=""), "DigestMismatch"),
        (replace(LOADED, device="cuda:0", pinned=False), "DeviceMismatch"),
        (replace(LOADED, device=""), "DeviceMismatch"),
        (replace(LOADED, pinned=False), "NotPinned"),
    ],
)
def test_checks_run_in_their_order(entry: LoadedModel, reason: str) -> None:
    verdict = judge((entry,), EXPECTED)
    assert (verdict.ready, verdict.reason, verdict.precision) == (False, reason, "F32")


@pytest.mark.parametrize(
    ("device", "ready"),
    [("cuda:0", True), ("cuda:15", True), ("cuda", True), ("cuda:", False), ("CUDA:0", False), ("cuda:0:1", False)],
)
def test_a_gpu_ordinal_counts_as_cuda_and_nothing_else(device: str, ready: bool) -> None:
    assert judge((replace(LOADED, device=device),), replace(EXPECTED, device="cuda")).ready is ready


@pytest.mark.parametrize("order", [1, -1])
def test_two_entries_of_one_name_must_both_pass(order: int) -> None:
    entries = (LOADED, replace(LOADED, digest=OTHER))[::order]
    assert judge(entries, EXPECTED).reason is GateReason.DIGEST_MISMATCH


def test_names_are_compared_for_the_registry_in_use() -> None:
    expected = replace(EXPECTED, name="mirror.corp/library/laya:en", default_host="mirror.corp")
    assert judge((LOADED,), expected).ready
    assert not judge((LOADED,), replace(expected, default_host="ollaya.dev")).ready


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (replace(LOADED, digest=OTHER), "the runtime reports digest d4d4d4d4d4d4, expected c3c3c3c3c3c3"),
        (replace(LOADED, digest=""), "the runtime reports no digest, expected c3c3c3c3c3c3"),
        (replace(LOADED, device="cuda:0"), "the runtime reports device cuda:0, expected cpu"),
        (replace(LOADED, device="vulkan"), "the runtime reports device vulkan, expected cpu"),
        (replace(LOADED, device=""), "the runtime reports no device, expected cpu"),
    ],
)
def test_a_mismatch_tells_what_was_found(entry: LoadedModel, message: str) -> None:
    assert judge((entry,), EXPECTED).message == message


@pytest.mark.parametrize(
    "text", ["s3cret-key", "x\n\x1b" + "y" * 10_000, "cuda:0\n", "cuda:" + "9" * 4, "c3" * 31 + "\u0661\u0661"]
)
@pytest.mark.parametrize("field", ["digest", "device"])
def test_other_texts_of_a_runtime_are_never_quoted(field: str, text: str) -> None:
    entry = replace(LOADED, digest=text) if field == "digest" else replace(LOADED, device=text)
    told = judge((entry,), EXPECTED).message
    assert told.startswith(f"the runtime reports something else as {field}, expected ")
    assert len(told) < 100


@pytest.mark.parametrize("error", ERRORS)
def test_an_open_gate_survives_three_rounds_without_an_answer(error: Inspection) -> None:
    memory, verdicts = ProbeMemory(warmed_up_for=T0), []
    for _ in range(4):
        step = after_inspection(memory, error, EXPECTED, gate_open=True)
        memory = step.memory
        verdicts.append(step.verdict and step.verdict.reason)
    assert verdicts == [None, None, None, GateReason.PROBE_ERROR]
    assert memory == ProbeMemory()


def test_an_answer_starts_the_count_again() -> None:
    memory = ProbeMemory(warmed_up_for=T0, failures=3)
    memory = after_inspection(memory, (LOADED,), EXPECTED, gate_open=True).memory
    assert memory == ProbeMemory(warmed_up_for=T0)
    assert after_inspection(memory, ERRORS[0], EXPECTED, gate_open=True).verdict is None


def test_a_closed_gate_gets_its_reason_at_once() -> None:
    verdict = after_inspection(ProbeMemory(warmed_up_for=T0), ERRORS[0], EXPECTED, gate_open=False).verdict
    assert verdict is not None
    assert verdict.reason is GateReason.PROBE_ERROR


def test_a_missing_model_closes_the_gate_at_once_and_must_be_loaded_again() -> None:
    step = after_inspection(ProbeMemory(warmed_up_for=T0), (), EXPECTED, gate_open=True)
    assert step.verdict is not None
    assert (step.verdict.ready, step.memory) == (False, ProbeMemory())


def test_a_model_that_is_not_pinned_must_be_loaded_again_which_pins_it() -> None:
    unpinned = replace(LOADED, pinned=False)
    step = after_inspection(ProbeMemory(warmed_up_for=T0), (unpinned,), EXPECTED, gate_open=True)
    assert step.verdict is not None
    assert (step.verdict.reason, step.memory) == (GateReason.NOT_PINNED, ProbeMemory())


@pytest.mark.parametrize("change", [{"digest": OTHER}, {"device": "metal"}, {"pinned": False}])
def test_a_mismatch_closes_the_gate_at_once(change: dict[str, str | bool]) -> None:
    step = after_inspection(ProbeMemory(), (replace(LOADED, **change),), EXPECTED, gate_open=True)  # type: ignore[arg-type]  # one field at a time
    assert step.verdict is not None
    assert not step.verdict.ready


@given(
    rounds=st.lists(st.sampled_from([*ERRORS, (), (LOADED,), (replace(LOADED, pinned=False),)])),
    gate_open=st.booleans(),
)
def test_a_gate_opens_only_on_proof_and_never_outlives_four_silent_rounds(
    rounds: list[Inspection], gate_open: bool
) -> None:
    memory, silent = ProbeMemory(), 0
    for inspection in rounds:
        step = after_inspection(memory, inspection, EXPECTED, gate_open=gate_open)
        opened = gate_open if step.verdict is None else step.verdict.ready
        silent = silent + 1 if inspection in ERRORS else 0
        assert not opened or gate_open or inspection == (LOADED,)
        assert not (opened and silent > 3)
        assert opened or inspection != (LOADED,)
        gate_open, memory = opened, step.memory


def warm_up_needed(memory: ProbeMemory, *, gate_open: bool) -> bool:
    return needs_warm_up(memory, gate_open=gate_open, containers_ready_at=T0)


def test_a_new_pod_is_warmed_up_once() -> None:
    assert warm_up_needed(ProbeMemory(), gate_open=False)
    assert not warm_up_needed(ProbeMemory(warmed_up_for=T0), gate_open=False)


def test_an_open_gate_needs_no_warm_up_after_a_restart_of_the_reconciler() -> None:
    assert not warm_up_needed(ProbeMemory(), gate_open=True)


@pytest.mark.parametrize("gate_open", [True, False])
@pytest.mark.parametrize("before", [T0 - MINUTE, T0 + MINUTE], ids=["later", "its node's clock was set back"])
def test_restarted_containers_are_warmed_up_again(before: dt.datetime, *, gate_open: bool) -> None:
    assert warm_up_needed(ProbeMemory(warmed_up_for=before), gate_open=gate_open)


def test_one_restart_costs_one_warm_up() -> None:
    assert not warm_up_needed(ProbeMemory(warmed_up_for=T0), gate_open=True)
