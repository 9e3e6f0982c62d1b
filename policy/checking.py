"""Runs the rules over manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from policy.configuration import Configuration
from policy.finding import Finding, ObjectReference
from policy.objects import kind_of
from policy.rule import Level, Problem, Rule, Settings, Subject
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
        finding
        for position in range(len(objects))
        for rule in RULES
        for finding in _findings(rule, position, objects, applied)
    )


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings because of which nothing may be applied."""
    return tuple(finding for finding in findings if finding.level is Level.MANDATORY)


def problems(rule: Rule, subject: Subject, settings: Settings) -> Iterable[Problem]:
    """Return what one rule finds in one object, whatever the rule's level."""
    return rule.examine(subject, settings) if kind_of(subject.object) in rule.kinds else ()


def _findings(rule: Rule, position: int, objects: tuple[Any, ...], configuration: Configuration) -> Iterator[Finding]:
    level = configuration.level(rule)
    if level is Level.DISABLED:
        return
    subject = Subject(object=objects[position], peers=objects, environment=configuration.environment)
    for problem in problems(rule, subject, configuration.settings[rule.id]):
        yield Finding(
            rule=rule.id,
            level=level,
            object=ObjectReference.of(subject.object),
            path=problem.path,
            message=problem.message,
            position=position,
        )
