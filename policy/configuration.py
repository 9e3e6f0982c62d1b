"""Levels and parameters of the rules, per environment: read once, then frozen.

```yaml
rules:
  image-registry-allowed:
    level: mandatory
    allowed: [ghcr.io/ollaya-dev, registry.example.com/models]
environments:
  dev:
    rules:
      registry-uses-tls: {level: disabled}
```

What an environment sets goes before what is set for all, key by key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from policy.errors import PolicyConfigurationError
from policy.navigation import at, mapping
from policy.rule import Level, Rule, Settings
from policy.rules import RULES, RULES_BY_ID
from policy.rules.declaration import Environments

_RawRules = dict[str, dict[str, Any]]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: _RawRules = {}


class _Document(_Section):
    environments: dict[str, _Section | None] = {}


def _default_settings() -> dict[str, Settings]:
    return {rule.id: rule.settings() for rule in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What applies in one environment. Treat the mapping as frozen.

    Attributes:
        environment: Its name; None when nobody said.
        settings: The settings of every rule, by its id.
    """

    environment: str | None = None
    settings: Mapping[str, Settings] = field(default_factory=_default_settings)

    def level(self, rule: Rule) -> Level:
        """Return the level that applies to a rule."""
        return self.settings[rule.id].level or rule.level

    def for_pack(self) -> dict[str, Any]:
        """Return the same as the CrossGuard pack reads it: the content of a `--policy-pack-config` file."""
        return {
            rule.id: {
                "enforcementLevel": str(self.level(rule)),
                **self.settings[rule.id].model_dump(mode="json", by_alias=True, exclude={"level"}),
            }
            for rule in RULES
        }


def read_configuration(document: Any, environment: str | None = None) -> Configuration:
    """Return what a configuration says for one environment.

    Args:
        document: The parsed configuration, as in the module's example; None, as of an empty file, for the defaults.
        environment: The environment; one that a document with environments does not list is refused, since a
            misspelt name would otherwise silently get other rules.

    Raises:
        PolicyConfigurationError: A key is unknown or a value is not usable, in any environment, or a rule applies in
            one that the document does not list.
    """
    try:
        parsed = _Document.model_validate({} if document is None else document)
    except ValidationError as error:
        raise PolicyConfigurationError(*_lines("", error)) from error
    sections = {name: section or _Section() for name, section in parsed.environments.items()}
    everywhere = _settings(parsed.rules, None, sections)
    configurations = {
        name: _settings(_merged(parsed.rules, each.rules), name, sections) for name, each in sections.items()
    }
    if environment is None or not sections:
        return Configuration(environment=environment, settings=everywhere)
    if environment not in sections:
        raise PolicyConfigurationError(f"environments: {environment!r} is not listed, only {', '.join(sections)}")
    return Configuration(environment=environment, settings=configurations[environment])


def read_settings(rule: Rule, values: Mapping[str, Any]) -> Settings:
    """Return the settings of one rule.

    Raises:
        PolicyConfigurationError: A key is unknown or a value is not usable.
    """
    try:
        return rule.settings.model_validate(values)
    except ValidationError as error:
        raise PolicyConfigurationError(*_lines(f"rules.{rule.id}.", error)) from error


def unnamed_environments(document: Any, environment: str | None) -> tuple[str, ...]:
    """Return the environments that a document lists, if one of them has to be named and none is.

    Without a name, a rule for some of them would apply in none.
    """
    return () if environment is not None else tuple(map(str, mapping(at(document, "environments"))))


def _merged(everywhere: _RawRules, here: _RawRules) -> _RawRules:
    return {rule: {**everywhere.get(rule, {}), **here.get(rule, {})} for rule in {**everywhere, **here}}


def _settings(rules: _RawRules, environment: str | None, listed: Collection[str]) -> dict[str, Settings]:
    where = "" if environment is None else f"environments.{environment}."
    if unknown := [rule for rule in rules if rule not in RULES_BY_ID]:
        raise PolicyConfigurationError(*(f"{where}rules.{rule}: there is no such rule" for rule in unknown))
    problems: list[str] = []
    settings = _default_settings()
    for rule, values in rules.items():
        try:
            settings[rule] = read_settings(RULES_BY_ID[rule], values)
        except PolicyConfigurationError as error:
            problems += [f"{where}{problem}" for problem in error.problems]
        problems += [f"{where}rules.{rule}.{line}" for line in _unlisted(settings[rule], listed)]
    if problems:
        raise PolicyConfigurationError(*problems)
    return settings


def _unlisted(settings: Settings, listed: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the environments that a rule is limited to: a misspelt one would switch it off."""
    for name in settings.environments if listed and isinstance(settings, Environments) else ():
        if name not in listed:
            yield f"environments: {name!r} is not listed under environments, only {', '.join(listed)}"


def _lines(prefix: str, error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        key = f"{prefix}{_dotted(problem['loc'])}".removesuffix(".") or "the configuration"
        message = problem["msg"].removeprefix("Value error, ")
        yield f"{key}: {'there is no such key' if problem['type'] == 'extra_forbidden' else message}"


def _dotted(location: Iterable[str | int]) -> str:
    return ".".join(map(str, location))
