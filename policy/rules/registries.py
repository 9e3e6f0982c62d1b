"""Where models come from, and whether the way from there can be tampered with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator

from policy.figures import model_name
from policy.navigation import JsonObject, Path, at, text
from policy.objects import MODELS_AND_WORKLOADS, Part, all_containers, variable_sources, variables
from policy.rule import Level, Problem, Rule, Settings, Subject
from reconciler.engine.errors import InvalidEndpoint
from reconciler.engine.names import DEFAULT_HOST, ModelName, is_host
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL, parse_endpoint

_MODEL: Final = "MODEL"
_REGISTRY: Final = "OLLAYA_REGISTRY"
_ENDPOINTS: Final = (_REGISTRY, "OLLAYA_HF_ENDPOINT")


def _host(value: str) -> str:
    if not is_host(value.lower()):
        raise ValueError(f"{value[:80]!r} is not a host with an optional port")
    return value.lower()


def _registry_url(value: str) -> str:
    try:
        return parse_endpoint("the address", value, allow_insecure=True)
    except InvalidEndpoint as error:
        raise ValueError(str(error)) from error


class ModelRegistries(Settings):
    """Where models may come from."""

    allowed: tuple[Annotated[str, AfterValidator(_host)], ...] = (DEFAULT_HOST,)
    """Hosts, with their port where they have one, that models may come from."""
    registry: Annotated[str, AfterValidator(_registry_url)] = DEFAULT_REGISTRY_URL
    """The registry of names without a host: what the reconciler's --ollaya-registry says."""


def _variables(subject: Subject, *names: str) -> Iterator[Part]:
    for container in all_containers(subject.object):
        yield from (each for each in variables(container) if text(each.fields.get("name")) in names)


def _unseen_variables(subject: Subject) -> Iterator[Path]:
    """Yield where variables come from elsewhere under any names, those of registries among them."""
    for container in all_containers(subject.object):
        yield from (path for path, _ in variable_sources(container))


def _named_models(subject: Subject) -> Iterator[tuple[Path, ModelName | None]]:
    """Yield every model that the object names, None where it is no name."""
    model = at(subject.object, "spec", "model")
    if model is not None:
        yield ("spec", "model"), model_name(model)
    for path, fields in _variables(subject, _MODEL):
        yield (*path, "value"), model_name(fields.get("value"))


def _allowed(subject: Subject, settings: ModelRegistries) -> Iterator[Problem]:
    for path, name in _named_models(subject):
        if name is None:
            yield Problem(path, "is no model name, so nobody can say which registry it would come from")
            continue
        host = name.registry(settings.registry).host
        if host not in settings.allowed:
            yield Problem(path, f"comes from {host}, which is not among {', '.join(settings.allowed) or 'none'}")
    for path, fields in _variables(subject, _REGISTRY):
        registry = _host_of(fields)
        if registry not in settings.allowed:
            yield Problem(path, f"sets the registry to {registry or 'no address'}, which is not allowed")
    for path in _unseen_variables(subject):
        yield Problem(path, f"can set {_MODEL} and {_REGISTRY}, so nobody can say where the model would come from")


def _host_of(variable: JsonObject) -> str | None:
    """Return the host of the address that a variable holds; None when it holds none, or not itself."""
    try:
        url = parse_endpoint(_REGISTRY, text(variable.get("value")), allow_insecure=True)
    except InvalidEndpoint:
        return None
    return url.partition("://")[2].partition("/")[0]


def _uses_tls(subject: Subject, _: Settings) -> Iterator[Problem]:
    for path, name in _named_models(subject):
        if name is not None and name.scheme == "http":
            yield Problem(path, f"is fetched from {name.host} by plain HTTP")
    for path, fields in _variables(subject, *_ENDPOINTS):
        if not text(fields.get("value")).strip().lower().startswith("https://"):
            yield Problem(path, f"{fields['name']} is no https address")
    for path in _unseen_variables(subject):
        yield Problem(path, f"can set {' and '.join(_ENDPOINTS)}, so nobody can say that they are https addresses")


RULES: Final = (
    Rule(
        id="model-registry-allowed",
        why="Whoever controls a registry decides what the model answers.",
        remedy="Take the model from an allowed registry, or have its host added to `allowed`.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        settings=ModelRegistries,
        examine=_allowed,
    ),
    Rule(
        id="registry-uses-tls",
        why="What comes by plain HTTP can be replaced on its way.",
        remedy="Give the registry or weight host an https address.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        examine=_uses_tls,
    ),
)
