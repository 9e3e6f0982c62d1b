"""Evidence is small, says what a verdict rests on, and lets anybody recompute it; anything else is refused."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.evaluation import evidence as evidence_module
from reconciler.evaluation.evidence import Evidence, EvidenceInvalid, EvidenceTooLarge, decode, encode
from reconciler.evaluation.judgement import Judgement, judge_run, recompute
from reconciler.evaluation.stored_table import PRECISIONS
from reconciler.evaluation.table import Item, QuestionKind
from tests.reconciler.evaluation.paired_tables import INPUTS, choices, outcomes, parameters

MANY = tuple(f"label-{number}" for number in range(12))


def judgement_of(items: int = 100, **changes: Any) -> Judgement:
    stable, candidate = outcomes(items, fixes=4, breaks=3, wrong=5)
    return judge_run(choices(stable), choices(candidate), INPUTS, parameters(**changes))


def scattered(seed: int, items: int = 200) -> list[Item]:
    """Answers with many labels, whose probabilities hardly compress."""
    chance = random.Random(seed)  # noqa: S311 # no secret
    return [_scattered(line, chance) for line in range(1, items + 1)]


def _scattered(line: int, chance: random.Random) -> Item:
    expected = MANY[line % len(MANY)]
    weights = {label: chance.random() ** 4 + 2 * (label == expected) * (chance.random() < 0.9) for label in MANY}
    shares = {label: weight / sum(weights.values()) for label, weight in weights.items()}
    predicted = max(MANY, key=shares.__getitem__)
    return Item(
        line=line,
        question="q",
        kind=QuestionKind.CHOICE,
        expected=expected,
        predicted=predicted,
        correct=predicted == expected,
        confidence=shares[predicted],
        calibration_correct=predicted == expected,
        probabilities=shares,
        seconds=chance.random(),
    )


def test_a_verdict_is_recomputed_byte_for_byte() -> None:
    judgement = judgement_of()
    read = decode(judgement.document)

    assert recompute(read).canonical() == read.verdict.canonical() == judgement.verdict.canonical()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_whatever_was_answered_can_be_recomputed(one: int, other: int) -> None:
    judgement = judge_run(scattered(one, 60), scattered(other, 60), INPUTS, parameters())
    read = decode(judgement.document)

    assert recompute(read).canonical() == judgement.verdict.canonical()
    assert encode(read) == judgement.document


def test_incomparable_tables_are_evidence_too() -> None:
    stable = choices([True] * 5)
    judgement = judge_run(stable, [*stable, stable[0]], INPUTS, parameters())

    assert recompute(decode(judgement.document)) == judgement.verdict


def test_everything_a_verdict_rests_on_is_in_it() -> None:
    document = json.loads(gzip.decompress(judgement_of().document))

    assert document["inputs"]["dataset_digest"] == INPUTS.dataset_digest
    assert document["verdict"]["parameters"]["seed"] == INPUTS.seed
    assert document["stable"][0] == {
        "line": 1,
        "question": "q",
        "kind": "choice",
        "expected": "b",
        "predicted": "b",
        "correct": True,
        "confidence": 900_000,
        "calibration_correct": True,
        "probabilities": {"a": 100_000, "b": 900_000},
    }


def test_an_altered_verdict_is_not_the_recomputed_one() -> None:
    read = decode(judgement_of().document)
    altered = Evidence(
        **{
            **{name: getattr(read, name) for name in Evidence.__struct_fields__},
            "stable": (*read.stable[1:],),
            "candidate": (*read.candidate[1:],),
        }
    )

    assert recompute(altered).canonical() != altered.verdict.canonical()


SCATTERED = (scattered(1), scattered(2))


@pytest.fixture(scope="module")
def sizes() -> list[int]:
    """How large the evidence is at each precision."""
    found = []
    for each in PRECISIONS:
        with pytest.MonkeyPatch.context() as only:
            only.setattr("reconciler.evaluation.judgement.PRECISIONS", (each,))
            found.append(len(judge_run(*SCATTERED, INPUTS, parameters()).document))
    return found


@pytest.mark.parametrize("precision", range(1, len(PRECISIONS)))
def test_what_does_not_fit_is_kept_less_exactly(
    precision: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence_module, "MAX_DOCUMENT", sizes[precision])

    judgement = judge_run(*SCATTERED, INPUTS, parameters())
    read = decode(judgement.document)

    assert read.precision == PRECISIONS[precision]
    assert len(judgement.document) <= sizes[precision] < sizes[precision - 1]
    assert recompute(read).canonical() == judgement.verdict.canonical()
    assert judgement.verdict.comparison is not None, "what was left out makes no table invalid"


def test_what_fits_in_no_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_module, "MAX_DOCUMENT", 100)

    with pytest.raises(EvidenceTooLarge, match="100 is the most"):
        judgement_of()


def rewritten(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(gzip.decompress(judgement_of().document))
    change(document)
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode())


def test_the_rewriting_of_these_tests_alters_nothing_by_itself() -> None:
    decode(rewritten(lambda document: document))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(version=2),
        lambda document: document.update(state="the text that was asked about"),
        lambda document: document.pop("inputs"),
        lambda document: document["verdict"].update(decision="Whatever"),
        lambda document: document["verdict"]["parameters"].update(resamples=10**12),
        lambda document: document["verdict"]["parameters"].update(confidence=0.1),
        lambda document: document["verdict"]["parameters"].update(margin=float("nan")),
        lambda document: document["verdict"]["parameters"].update(margin="0.02"),
        lambda document: document["precision"].update(decimals=-1),
        lambda document: document["stable"][0].update(confidence=1_000_001),
        lambda document: document["stable"][0].update(line=0),
        lambda document: document["stable"][0].update(micros=0),
        lambda document: document["stable"][0].update(correct=1),
        lambda document: document.update(stable=document["stable"] * 501),
    ],
)
def test_another_shape_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(EvidenceInvalid):
        decode(rewritten(change))


def test_spaces_are_not_canonical() -> None:
    text = gzip.decompress(judgement_of().document)

    with pytest.raises(EvidenceInvalid, match="canonical"):
        decode(gzip.compress(text.replace(b",", b", ", 1)))


@given(st.binary(max_size=200))
@example(gzip.compress(b"[" * 100_000))
@example(gzip.compress(b"\xff\xfe"))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(EvidenceInvalid):
        decode(noise)


@pytest.mark.parametrize("cut", [0, 1, 10, -1, -8])
def test_a_document_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(EvidenceInvalid):
        decode(judgement_of().document[:cut])


def test_what_follows_a_document_is_refused() -> None:
    with pytest.raises(EvidenceInvalid, match="followed by something else"):
        decode(judgement_of().document + b"\0")


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_module, "MAX_TEXT", 1_000_000)

    with pytest.raises(EvidenceInvalid, match="too long"):
        decode(gzip.compress(b" " * 2_000_000))
    with pytest.raises(EvidenceInvalid, match="is the most"):
        decode(b"\0" * (evidence_module.MAX_DOCUMENT + 1))
