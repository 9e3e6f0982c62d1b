"""How every model of the declared API reads and writes JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import AwareDatetime, ConfigDict, GetJsonSchemaHandler, PlainSerializer, model_validator

from api.frozen import FrozenModel
from api.rules import VALIDATIONS_KEYWORD, Rule

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


def _whole_seconds(moment: datetime) -> str:
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


Timestamp = Annotated[AwareDatetime, PlainSerializer(_whole_seconds, return_type=str, when_used="json")]
"""A moment with a time zone; written as Kubernetes does, in UTC and whole seconds."""


class ApiModel(FrozenModel):
    """A frozen value that speaks the API's JSON.

    Reading ignores unknown fields, as the API server prunes them, and takes an explicit null for an absent field, as
    templating tools render it. Maps inside are ordinary dictionaries: treat them as frozen too.
    """

    model_config = ConfigDict(extra="ignore", serialize_by_alias=True)

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _nulls_are_absent(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = super().__get_pydantic_json_schema__(schema, handler)
        if cls.rules:
            target = handler.resolve_ref_schema(described)
            target[VALIDATIONS_KEYWORD] = [rule.keyword() for rule in cls.rules]
        return described

    def dump(self) -> dict[str, Any]:
        """Return the API's JSON: no field at its default (so no null), keys sorted, lists in their order.

        Equal values give equal JSON texts.
        """
        ordered: dict[str, Any] = _sorted_keys(self.model_dump(mode="json", exclude_defaults=True))
        return ordered


def _sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted_keys(item) for item in value]
    return value
