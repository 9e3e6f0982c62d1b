"""What the models of the declared API, of rules and of environments have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel

from api.descriptions import field_descriptions

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class FrozenModel(BaseModel):
    """A frozen value with camelCase names outside, whose JSON schema tells what its fields mean."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        # A start pays for the models that it reads, and not for all there are.
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        target = handler.resolve_ref_schema(described)
        for name, text in field_descriptions(cls).items():
            target["properties"][cls.model_fields[name].alias]["description"] = text
        return described
