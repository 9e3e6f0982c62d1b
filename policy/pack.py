"""The rules as a CrossGuard policy pack: `pulumi preview --policy-pack policy`.

Every rule is a policy of the same name, so levels and parameters come from `--policy-pack-config`; the environment is
the stack. A rule about one object is a resource policy, which stops an object before it is applied. A rule about
several objects is a stack policy, which an update runs only after it has applied them: gate on a preview.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from policy.checking import problems
from policy.configuration import read_settings
from policy.engine_values import Resource, read_resource, stack_of
from policy.navigation import rendered
from policy.objects import kind_of
from policy.rule import Problem, Rule, Subject
from policy.rules import RULES

PACK_NAME: Final = "decisionmodel"
UNKNOWN_VALUES: Final = "known-in-preview"
"""The policy that only this pack has: what the other rules could not see is a breach, not a pass."""

_JUDGED_KINDS: Final = frozenset(kind for rule in RULES for kind in rule.kinds)


def policies() -> list[Policy]:
    """Return the pack's policies."""
    return [_known_in_preview(), *map(_policy, RULES)]


def serve() -> None:
    """Serve the pack to the engine; ends only when the engine ends the process."""
    PolicyPack(PACK_NAME, policies())


def _policy(rule: Rule) -> Policy:
    common: dict[str, Any] = {
        "name": rule.id,
        "description": rule.why,
        "enforcement_level": EnforcementLevel(rule.level),
        "config_schema": _schema(rule),
        "remediation_steps": rule.remedy,
    }
    if rule.relational:
        return StackValidationPolicy(validate=_stack_validation(rule), **common)
    return ResourceValidationPolicy(validate=_resource_validation(rule), **common)


def _schema(rule: Rule) -> PolicyConfigSchema | None:
    """Return what the engine checks a rule's parameters against; its level is the engine's own affair."""
    properties = dict(rule.settings.model_json_schema()["properties"])
    del properties["level"]
    return PolicyConfigSchema(properties) if properties else None


def _resource_validation(rule: Rule) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = read_resource(args.resource_type, args.props)
        if resource is None or kind_of(resource.manifest) not in rule.kinds:
            return
        resource.check_known()
        subject = Subject(object=resource.manifest, environment=stack_of(args.urn))
        for problem in problems(rule, subject, read_settings(rule, args.get_config())):
            report(_message(rule, problem), None)

    return validate


def _stack_validation(rule: Rule) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        read = {each.urn: read_resource(each.resource_type, each.props) for each in args.resources}
        resources: Mapping[str, Resource] = {urn: each for urn, each in read.items() if each is not None}
        peers = tuple(each.manifest for each in resources.values())
        settings = read_settings(rule, args.get_config())
        for urn, resource in resources.items():
            subject = Subject(object=resource.manifest, peers=peers, environment=stack_of(urn))
            for problem in problems(rule, subject, settings):
                report(_message(rule, problem), urn)

    return validate


def _message(rule: Rule, problem: Problem) -> str:
    return f"{rendered(problem.path)}: {problem.message}. {rule.remedy}"


def _known_in_preview() -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = read_resource(args.resource_type, args.props)
        if resource is None or kind_of(resource.manifest) not in _JUDGED_KINDS:
            return
        for error in resource.unknown:
            report(f"{'.'.join(error.props)} is not known before the update. Give it as a plain value.", None)

    return ResourceValidationPolicy(
        name=UNKNOWN_VALUES,
        description="What is not known in a preview cannot be judged in one, and an update would apply it unseen.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=validate,
    )
