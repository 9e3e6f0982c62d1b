"""Rules that span more than one keyword of a schema, stated once for the API server and for Python.

A `Rule` is a CEL expression, the message a user reads, and the same predicate in Python. It stands either in the
`rules` of a model or in the `Annotated` metadata of a scalar or list field, so it always sits on the type it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

VALIDATIONS_KEYWORD = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation rule.

    Attributes:
        expression: the rule in CEL, where `self` is the value it stands on.
        message: what a user whose object breaks the rule has to change.
        holds: the same rule over the parsed Python value.
    """

    expression: str
    message: str
    holds: Callable[[Any], bool]

    def check(self, value: Any) -> Any:
        """Return `value` unchanged, or raise ValueError with the rule's message."""
        if not self.holds(value):
            raise ValueError(self.message)
        return value

    def keyword(self) -> dict[str, str]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        return {"rule": self.expression, "message": self.message}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        described = handler(schema)
        described.setdefault(VALIDATIONS_KEYWORD, []).append(self.keyword())
        return described
