"""Runs the rules over manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from policy.configuration import Configuration
from policy.finding import Finding, ObjectReference
from policy.objects import kind_of
from policy.rule import Level, Problem, Rule, Subject
from policy.rules import RULES


def check(manifests: Iterable[Any], configuration: Configuration | None = None) -> tuple[Finding, ...]:
    """Return what the rules find in manifests that are to be applied together, in their order.

    Never raises for what is in a manifest: whatever is no object of a known kind has no findings.

    Args:
        manifests: Parsed JSON, of any shape.
        configuration: Levels and parameters; the defaults when left out.
    """
    applied = configuration or Configuration()
    objects = tuple(manifests)
    return tuple(
        _finding(rule, applied.level(rule), problem, position, manifest)
        for position, manifest in enumerate(objects)
        for rule in RULES
        for problem in _problems(rule, manifest, objects, applied)
    )


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings because of which nothing may be applied."""
    return tuple(finding for finding in findings if finding.level is Level.MANDATORY)


def _problems(rule: Rule, manifest: Any, objects: tuple[Any, ...], configuration: Configuration) -> Iterator[Problem]:
    if configuration.level(rule) is Level.DISABLED or kind_of(manifest) not in rule.kinds:
        return
    subject = Subject(object=manifest, peers=objects, environment=configuration.environment)
    yield from rule.examine(subject, configuration.settings[rule.id])


def _finding(rule: Rule, level: Level, problem: Problem, position: int, manifest: Any) -> Finding:
    return Finding(
        rule=rule.id,
        level=level,
        object=ObjectReference.of(manifest),
        path=problem.path,
        message=problem.message,
        position=position,
    )
