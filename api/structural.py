"""From a pydantic model to a structural schema, as a CustomResourceDefinition demands it.

Kubernetes takes a strict subset of OpenAPI: no references, no unions, a type everywhere. Whatever of a model's JSON
schema cannot be said there is an error, never dropped in silence.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from api.errors import UnsupportedSchemaError

Schema = dict[str, Any]

_KEPT = frozenset(
    {
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    }
)
_HANDLED = frozenset({"additionalProperties", "default", "items", "properties"})
_DROPPED = frozenset({"title"})


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Return the structural schema of a model.

    Args:
        model: the model to describe.
        defaults: whether the API server should fill in scalar defaults. Defaults that only mean "nothing" (null,
            empty texts, lists and objects) are never given to the server: an absent field stays absent.

    Raises:
        UnsupportedSchemaError: the model says something a structural schema cannot.
    """
    schema = model.model_json_schema()
    return _Converter(schema.pop("$defs", {}), defaults=defaults).convert(schema, model.__name__, ())


class _Converter:
    """Carries the definitions that references point to; every method returns a new schema."""

    def __init__(self, definitions: dict[str, Schema], *, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def convert(self, schema: Schema, path: str, ancestors: tuple[str, ...]) -> Schema:
        """Convert one schema; `path` says where it is, `ancestors` which definitions it is inside of."""
        if "anyOf" in schema:
            return self.convert(_without_null(schema, path), path, ancestors)
        if "$ref" in schema:
            return self._inline(schema, path, ancestors)
        if unknown := schema.keys() - _KEPT - _HANDLED - _DROPPED:
            raise UnsupportedSchemaError(f"{path}: a structural schema has no {', '.join(sorted(unknown))}")
        if "type" not in schema and "x-kubernetes-int-or-string" not in schema:
            raise UnsupportedSchemaError(f"{path}: a structural schema needs a type here")
        converted = {key: schema[key] for key in schema.keys() & _KEPT}
        return converted | self._default(schema) | self._children(schema, path, ancestors)

    def _inline(self, schema: Schema, path: str, ancestors: tuple[str, ...]) -> Schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in ancestors:
            raise UnsupportedSchemaError(f"{path}: {name} contains itself, which a structural schema cannot express")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.convert(self._definitions[name] | beside, path, (*ancestors, name))

    def _default(self, schema: Schema) -> Schema:
        default = schema.get("default")
        meaningful = default not in (None, "", [], {}) and not isinstance(default, dict)
        return {"default": default} if self._defaults and meaningful else {}

    def _children(self, schema: Schema, path: str, ancestors: tuple[str, ...]) -> Schema:
        children: Schema = {}
        if "properties" in schema:
            children["properties"] = {
                name: self.convert(child, f"{path}.{name}", ancestors) for name, child in schema["properties"].items()
            }
        for keyword, suffix in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(schema.get(keyword), dict):
                children[keyword] = self.convert(schema[keyword], path + suffix, ancestors)
        _check_complete(schema, children, path)
        return children


def _without_null(schema: Schema, path: str) -> Schema:
    """Return the one schema that `T | None` leaves, with what stands beside the union laid over it."""
    options = [option for option in schema["anyOf"] if option != {"type": "null"}]
    if len(options) != 1 or len(options) == len(schema["anyOf"]):
        raise UnsupportedSchemaError(f"{path}: only the union of one type with None can be expressed")
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    return dict(options[0]) | beside


def _check_complete(schema: Schema, children: Schema, path: str) -> None:
    if schema.get("type") == "array" and "items" not in children:
        raise UnsupportedSchemaError(f"{path}: the type of the list's items is not known")
    if schema.get("type") == "object" and not children:
        raise UnsupportedSchemaError(f"{path}: neither the object's fields nor the type of its values are known")
