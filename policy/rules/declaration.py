"""What a DecisionModel itself must say: what the API accepts, and an evaluation where the environment asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from policy.navigation import at, existing, mapping
from policy.objects import DECISION_MODEL
from policy.rule import Level, Problem, Rule, Settings, Subject

_MOST_PROBLEMS: Final = 20


class Environments(Settings):
    """Where a rule applies."""

    environments: tuple[str, ...] = ()
    """Names of the environments in which the rule applies."""


def _valid(subject: Subject, _: Settings) -> Iterator[Problem]:
    try:
        DecisionModel.model_validate(subject.object)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        yield from (_problem(subject.object, problem) for problem in problems[:_MOST_PROBLEMS])


def _problem(manifest: Any, problem: Any) -> Problem:
    path = problem["loc"]
    # Where several types are allowed, the path goes on with the name of the one that was tried.
    found = path if problem["type"] == "missing" else existing(manifest, path)
    return Problem(found, problem["msg"].removeprefix("Value error, "))


def _evaluated(subject: Subject, settings: Environments) -> Iterator[Problem]:
    path = ("spec", "rollout", "evaluation")
    if subject.environment in settings.environments and not mapping(at(subject.object, *path)):
        yield Problem(path, f"models in {subject.environment} are scored before they serve, and this one is not")


RULES: Final = (
    Rule(
        id="decisionmodel-valid",
        why="The cluster would refuse the manifest anyway, only later.",
        remedy="Correct the field that the finding names.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        examine=_valid,
    ),
    Rule(
        id="evaluation-required",
        why="A model that nobody scored can serve worse decisions than the one it replaces.",
        remedy="Add `spec.rollout.evaluation` with a golden data set and its gates.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        settings=Environments,
        examine=_evaluated,
    ),
)
