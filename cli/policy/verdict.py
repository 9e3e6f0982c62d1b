"""What a check found, with files and lines: the value that every report is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cli.errors import ExitCode
from cli.manifests.sources import Manifests, SourcedManifest
from policy import Configuration, Finding, Level, check
from policy.finding import ObjectReference
from policy.objects import DECISION_MODEL, kind_of
from policy.rules import RULES_BY_ID


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding and the place that a person has to change."""

    finding: Finding
    file: str
    line: int

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return RULES_BY_ID[self.finding.rule].remedy


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check.

    Attributes:
        findings: In the order of the manifests.
        checked: What was checked, in its order.
        passed_over: How many documents were no manifests.
    """

    findings: tuple[LocatedFinding, ...]
    checked: tuple[ObjectReference, ...]
    passed_over: int

    def count(self, level: Level) -> int:
        """Return how many findings of a level there are."""
        return sum(each.finding.level is level for each in self.findings)

    @property
    def exit_code(self) -> ExitCode:
        """Refused with mandatory findings, clean with only advisory ones."""
        return ExitCode.REFUSED if self.count(Level.MANDATORY) else ExitCode.CLEAN


def judge(
    read: Manifests, configuration: Configuration, rendered: Callable[[Any, Configuration], Iterable[Any]]
) -> Verdict:
    """Return the verdict over manifests and what `rendered` makes of the DecisionModels among them."""
    manifests = read.manifests
    findings = check([manifest.value for manifest in manifests], configuration)
    located: list[LocatedFinding] = []
    for position, manifest in enumerate(manifests):
        own = [finding for finding in findings if finding.position == position]
        inherited = _of_rendered(manifest, position, configuration, rendered)
        # A rule that complains about the DecisionModel would repeat itself for every object made of it.
        told = {finding.rule for finding in own}
        own += [finding for finding in inherited if finding.rule not in told]
        located += [LocatedFinding(each, manifest.file, manifest.line(each.path)) for each in own]
    checked = tuple(ObjectReference.of(manifest.value) for manifest in manifests)
    return Verdict(tuple(located), checked, read.passed_over)


def _of_rendered(
    manifest: SourcedManifest,
    position: int,
    configuration: Configuration,
    rendered: Callable[[Any, Configuration], Iterable[Any]],
) -> Iterator[Finding]:
    """Yield what is wrong with the objects of a DecisionModel as findings about it, since only it can be changed."""
    if kind_of(manifest.value) not in DECISION_MODEL:
        return
    about = ObjectReference.of(manifest.value)
    for finding in check(rendered(manifest.value, configuration), configuration):
        message = f"in the {finding.object.kind} rendered for it, {finding.where}: {finding.message}"
        yield replace(finding, object=about, path=(), message=message, position=position)
