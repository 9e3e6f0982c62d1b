"""Every state within one disturbance of a rollout, checked; how many they are is printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.model_checker import Scope, Start, check


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", Start)
def test_every_property_holds_in_every_state_within_one_disturbance(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    report = check(Scope(depth=1, start=start))
    with capsys.disabled():
        sys.stdout.write(f"\nfrom {start}: {report}\n")
    assert report.violation is None, str(report)
    assert report.complete
    assert report.states > 5000, "a search that ends early shows nothing"


def test_an_undisturbed_rollout_rests_in_every_order_of_its_steps() -> None:
    for start in Start:
        report = check(Scope(depth=0, start=start))
        assert report.violation is None, str(report)
        assert report.complete


def test_a_search_that_is_cut_short_says_so() -> None:
    report = check(Scope(depth=1, limit=100))
    assert report.states == 100
    assert not report.complete
    assert "not all of the depth" in str(report)


def test_the_command_prints_what_it_found() -> None:
    command = [sys.executable, "-m", "tools.model_checker", "--depth", "0", "--start", "nothing"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.startswith("from nothing: depth 0: ")
    assert " states, " in output
    assert " transitions, " in output
