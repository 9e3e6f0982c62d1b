"""The last evaluation and its evidence in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from api.status import EvaluationStatus
from reconciler.evaluation.evidence import Evidence
from reconciler.evaluation.verdict import Accuracy, Calibration, Comparison, LabelRecall, ScoreChange, Verdict

_LABELS_SHOWN = 20


def evaluation_lines(name: str, told: EvaluationStatus) -> Iterator[str]:
    """Yield what the status says."""
    result = "running" if told.result is None else str(told.result)
    yield f"{name}: {result}, revision {told.revision}"
    if told.reason:
        yield f"  {told.reason}"
    scores: Mapping[str, tuple[str, str]] = {
        "accuracy": (told.accuracy, told.baseline_accuracy),
        "macro-F1": (told.macro_f1, told.baseline_macro_f1),
        "ECE": (told.ece, told.baseline_ece),
        "Brier": (told.brier, ""),
    }
    for score, (value, baseline) in scores.items():
        if value:
            yield f"  {score:<9} {value}" + (f"  (serving revision {baseline})" if baseline else "")
    yield f"  cases     {told.cases}, {told.failed_cases} without a usable answer"
    gates = {
        "minAccuracy": told.min_accuracy,
        "maxAccuracyDrop": told.max_accuracy_drop,
        "minMacroF1": told.min_macro_f1,
        "maxMacroF1Drop": told.max_macro_f1_drop,
        "maxECE": told.max_ece,
        "maxECEIncrease": told.max_ece_increase,
    }
    yield f"  gates     {', '.join(f'{gate} {value}' for gate, value in gates.items() if value) or 'none'}"
    for question in told.questions:
        yield f"  question  {question.id}: accuracy {question.accuracy} in {question.cases} cases"
    if told.approval_id:
        yield f"  approve   decisionmodel.io/promote={told.approval_id}"


def evidence_lines(evidence: Evidence) -> Iterator[str]:
    """Yield what the comparison of both revisions rests on."""
    yield from _verdict(evidence.verdict)
    inputs = evidence.inputs
    yield f"  data set {inputs.dataset_digest}, policy {inputs.policy_hash}, scorer {inputs.scorer_version}"
    yield f"  models sha256:{inputs.stable_digest[:12]} (serving), sha256:{inputs.candidate_digest[:12]} (candidate)"


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield f"comparison: {verdict.decision} ({verdict.code}): {verdict.text}"
    parameters = verdict.parameters
    yield (
        f"  margin {100 * parameters.margin:g} points, confidence {parameters.confidence:g},"
        f" {parameters.min_items_per_label} items a label, seed {parameters.seed}"
    )
    for need in verdict.needs:
        of = f" of {need.question}={need.label}" if need.label is not None else ""
        yield f"  needs {need.items} more items{of}"
    if verdict.comparison is not None:
        yield from _comparison(verdict.comparison)


def _comparison(told: Comparison) -> Iterator[str]:
    yield _accuracy(told.accuracy)
    scores = {"log-loss": told.log_loss, "Brier score": told.brier}
    yield from (_score(name, change) for name, change in scores.items() if change is not None)
    yield from (_label(label) for label in told.labels[:_LABELS_SHOWN])
    if len(told.labels) > _LABELS_SHOWN:
        yield f"  … and {len(told.labels) - _LABELS_SHOWN} more labels"
    calibrations = {"serving": told.stable_calibration, "candidate": told.candidate_calibration}
    yield from (_calibration(name, each) for name, each in calibrations.items() if each is not None)
    yield (
        f"  latency p50/p95: serving {told.stable_latency.p50:g}/{told.stable_latency.p95:g} ms,"
        f" candidate {told.candidate_latency.p50:g}/{told.candidate_latency.p95:g} ms"
    )


def _accuracy(told: Accuracy) -> str:
    return (
        f"  accuracy {told.stable:.4f} -> {told.candidate:.4f}: {_points(told.difference)} points"
        f" ({_points(told.lower)} to {_points(told.upper)}) on {told.items} items,"
        f" {told.fixes} fixed and {told.breaks} broken"
    )


def _score(name: str, told: ScoreChange) -> str:
    return (
        f"  {name} {told.stable:.4f} -> {told.candidate:.4f}: {told.difference:+.4f}"
        f" ({told.lower:+.4f} to {told.upper:+.4f}), {told.tolerated:.4f} forgiven, p {told.p_value:.3g}"
    )


def _label(told: LabelRecall) -> str:
    change = "" if told.difference is None else f", recall {_points(told.difference)} points"
    return f"  label {told.question}={told.label}: {told.outcome} on {told.items} items{change}"


def _calibration(name: str, told: Calibration) -> str:
    return f"  ECE of {name} {told.error:.4f}; perfect calibration would show {told.noise_median:.4f} by chance"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"
