"""The gate errs as rarely as it says, and docs/evaluation.md shows the numbers that the simulation gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from scipy.stats import binomtest

from api.decisionmodel import DecisionModel
from reconciler.evaluation.planner import Aim, plan
from reconciler.evaluation.verdict import Code, Decision
from tests.reconciler.evaluation.paired_tables import choices, judged, outcomes
from tools.bench import gate

TEXT = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def shown(name: str) -> list[str]:
    """The lines of the table under a marker."""
    found = re.search(rf"<!-- {name} -->\n((?:\|.*\n)+)", TEXT)
    assert found, name
    return found[1].splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_rates_shown_are_the_simulated_ones() -> None:
    assert shown("rates") == gate.rates_table()


def test_the_coverage_shown_is_the_simulated_one() -> None:
    assert shown("coverage") == gate.coverage_table()


def test_the_plan_shown_is_the_planners() -> None:
    for line in shown("plan")[2:]:
        margin, *items = cells(line)
        planned = [plan(Aim(margin=float(margin), discordance=share)).items for share in (0.04, 0.08, 0.12)]
        assert list(map(int, items)) == planned


@pytest.mark.parametrize("items", gate.SIZES)
def test_errors_are_within_the_stated_level(items: int) -> None:
    """An equal candidate is rejected, and one that is worse by the margin promoted, in at most 5 % of all runs."""
    equal = gate.draw(items, 0.0, 0.08, seed=items + 1)
    worse = gate.draw(items, -gate.MARGIN, 0.08, seed=items + 1)
    falsely_rejected = int(gate.tango(equal[:, [0, 2, 1, 3]], gate.MARGIN).sum())
    falsely_promoted = int(gate.tango(worse, -gate.MARGIN).sum())

    for errors in (falsely_rejected, falsely_promoted):
        assert errors / gate.RUNS < 0.053, "5 %, and what the normal approximation may be off"


@pytest.mark.parametrize("items", gate.SIZES)
def test_the_naive_gate_turns_away_nearly_half_of_all_equal_candidates(items: int) -> None:
    turned_away = 1 - gate.naive(gate.draw(items, 0.0, 0.08, seed=items + 1), 0.0).mean()

    assert 0.44 <= turned_away <= 0.49


@pytest.mark.parametrize("candidate", gate.CANDIDATES, ids=lambda candidate: candidate.name)
def test_a_sample_of_the_whole_gate_agrees_with_what_is_shown(candidate: gate.Candidate) -> None:
    """Other runs than those of the table, too few for its digits but enough to notice another gate."""
    items, runs = 200, 10
    decided = gate.whole_gate(candidate, items, range(10_000, 10_000 + runs))
    (line,) = [line for line in shown("whole") if cells(line)[:2] == [str(items), candidate.name]]
    kinds = (Decision.PROMOTE, Decision.UNDECIDED, Decision.REJECT)

    for kind, share in zip(kinds, cells(line)[2:], strict=True):
        # The table is rounded, and a simulation itself: never surer than within two points.
        rate = min(0.98, max(0.02, float(share.rstrip("%")) / 100))
        assert binomtest(decided.count(kind), runs, rate).pvalue > 0.001, kind


@pytest.mark.parametrize("items", gate.SIZES)
def test_the_whole_gate_shown_rarely_rejects_an_equal_candidate(items: int) -> None:
    (line,) = [line for line in shown("whole") if cells(line)[:2] == [str(items), "as good"]]
    rejected = round(float(cells(line)[4].rstrip("%")) / 100 * gate.WHOLE_RUNS)

    assert binomtest(rejected, gate.WHOLE_RUNS, 0.05, alternative="greater").pvalue > 0.05


def test_every_code_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \| (?:Promote|Reject|Undecided) \|", TEXT, re.MULTILINE)

    assert sorted(explained) == sorted(Code)


def test_the_manifest_shown_is_a_valid_one() -> None:
    (manifest,) = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    declared = DecisionModel.model_validate(yaml.safe_load(manifest)).spec.rollout.evaluation

    assert declared is not None
    assert declared.statistics is not None
    fields = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", TEXT, re.MULTILINE)
    named = {str(field.alias) for field in type(declared.statistics).model_fields.values()}
    assert named <= {*fields}


def test_the_undecided_verdict_shown_is_the_real_one() -> None:
    stable, candidate = outcomes(100, fixes=4, breaks=4)

    assert judged(choices(stable), choices(candidate)).text in TEXT
